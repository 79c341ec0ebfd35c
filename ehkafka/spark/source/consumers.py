"""One consumer for each worker process and configuration, kept between tasks, and what it reads of pieces.

Called on the task's thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ehkafka.ranges import reading
from ehkafka.ranges.client import OpenConsumer, open_reader
from ehkafka.spark.kept import KeptClients

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import KafkaError, Message

    from ehkafka.ranges.places import Piece
    from ehkafka.spark.source.options import SourceOptions

# What librdkafka reported apart from the records; only the last of it explains a time-out.
_ERRORS_MAX = 20


KEPT: Final[KeptClients[OpenConsumer]] = KeptClients(lambda one: one.consumer.close())


def messages(options: SourceOptions, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, list[Message]]]:
    """Yield the records of each piece, read by this process's consumer, as `reading.messages` does."""
    return reading.messages(options, pieces, borrowed(options))


@contextmanager
def borrowed(options: SourceOptions) -> Iterator[OpenConsumer]:
    """Hand out this process's consumer; it comes back unassigned, or is closed if the task failed.

    Raises `ConfigurationError` where the endpoint cannot be made or opened here.
    """
    endpoint = options.broker()
    # Through the properties, because that reads a file or callable again.
    password = endpoint.credential and endpoint.client_properties().get("sasl.password")

    def opened() -> OpenConsumer:
        errors: list[KafkaError] = []
        return OpenConsumer(open_reader(options, errors), errors, password)

    key = (options.endpoint, options.group)
    with KEPT.used(key, opened, is_current=lambda one: one.opened_with == password) as lent:
        yield lent
        lent.consumer.unassign()
        del lent.errors[:-_ERRORS_MAX]
