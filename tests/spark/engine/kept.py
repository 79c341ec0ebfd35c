"""Closes the producers that a worker process keeps between tasks."""

from __future__ import annotations

from ehkafka.spark.engine.tasks import kept_producers


def close_kept() -> None:
    """Close what is kept, and end the thread."""
    with kept_producers._LOCK:
        kept = [kept_producers._KEPT.pop(place) for place in list(kept_producers._KEPT)]
        thread = kept_producers._thread
    for one in kept:
        one.producer.give_up(0.0)
    if thread is not None:
        thread.join()
