"""Closes the clients that a worker process keeps between tasks."""

from __future__ import annotations

from ehkafka.spark.engine.tasks import outputs
from ehkafka.spark.source import consumers
from ehkafka.spark.writer import sending


def close_idle() -> None:
    """Close the consumers, the producers and the senders."""
    for kept in (consumers.KEPT, sending.KEPT, outputs.KEPT):
        kept.close()
