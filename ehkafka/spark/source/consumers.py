"""One consumer for each worker process and configuration, kept between tasks.

Called by `reading`, on the task's thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ehkafka.spark.kept import KeptClients
from ehkafka.spark.source.client import open_source_consumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.spark.source.options import SourceOptions

# What librdkafka reported apart from the records; only the last of it explains a time-out.
_ERRORS_MAX = 20


@dataclass(slots=True)
class SourceConsumer:
    """A consumer, and what it has heard since it was handed out."""

    consumer: Consumer
    errors: list[KafkaError] = field(default_factory=list)
    # The password that it was opened with, to notice a rotated one. Stays in this process.
    opened_with: object = field(default=None, repr=False)


KEPT: Final[KeptClients[SourceConsumer]] = KeptClients(lambda one: one.consumer.close())


@contextmanager
def borrowed(options: SourceOptions) -> Iterator[SourceConsumer]:
    """Hand out this process's consumer; it comes back unassigned, or is closed if the task failed.

    Raises `ConfigurationError` where the endpoint cannot be made or opened here.
    """
    endpoint = options.endpoint.endpoint()
    # Through the properties, because that reads a file or callable again.
    password = endpoint.credential and endpoint.client_properties().get("sasl.password")

    def opened() -> SourceConsumer:
        errors: list[KafkaError] = []
        return SourceConsumer(open_source_consumer(endpoint, options.group, errors), errors, password)

    key = (options.endpoint, options.group)
    with KEPT.used(key, opened, is_current=lambda one: one.opened_with == password) as lent:
        yield lent
        lent.consumer.unassign()
        del lent.errors[:-_ERRORS_MAX]
