"""Closes the clients that a worker process keeps between tasks."""

from __future__ import annotations

from ehkafka.spark.engine.tasks import kept_producers
from ehkafka.spark.source import consumers


def close_kept() -> None:
    """Close the producers, and end their thread."""
    with kept_producers._LOCK:
        kept = [kept_producers._KEPT.pop(place) for place in list(kept_producers._KEPT)]
        thread = kept_producers._thread
    for one in kept:
        one.producer.give_up(0.0)
    if thread is not None:
        thread.join()


def close_idle() -> None:
    """Close the consumers."""
    while consumers._IDLE:
        _, kept = consumers._IDLE.popitem()
        kept.consumer.close()
