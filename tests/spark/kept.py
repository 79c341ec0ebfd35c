"""Closes the clients that a worker process keeps between tasks."""

from __future__ import annotations

from ehkafka.spark.engine.tasks import outputs
from ehkafka.spark.source import consumers
from ehkafka.spark.writer import producers


def close_kept() -> None:
    """End the senders."""
    while outputs._KEPT:
        _, kept = outputs._KEPT.popitem()
        kept._closes.cancel()
        kept.sender.stop(0.0)


def close_idle() -> None:
    """Close the consumers and producers."""
    consumers.KEPT.close()
    producers.KEPT.close()
