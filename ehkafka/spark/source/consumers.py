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

    from ehkafka.endpoint import Endpoint
    from ehkafka.spark.source.options import SourceOptions

# What librdkafka reported apart from the records; only the last of it explains a time-out.
_ERRORS_MAX = 20


@dataclass(slots=True)
class SourceConsumer:
    """A consumer, and what it has heard since it was handed out."""

    consumer: Consumer
    errors: list[KafkaError] = field(default_factory=list)
    # The password that it was opened with, to notice a rotated one. Stays in this process.
    _opened_with: object = field(default=None, repr=False)

    def is_current(self, endpoint: Endpoint) -> bool:
        """Tell whether its key is still the endpoint's; a file is read again for that."""
        return endpoint.credential is None or self._opened_with == _key(endpoint)


KEPT: Final[KeptClients[SourceConsumer]] = KeptClients(lambda one: one.consumer.close())


@contextmanager
def borrowed(options: SourceOptions) -> Iterator[SourceConsumer]:
    """Hand out this process's consumer; it comes back unassigned, or is closed if the task failed.

    Raises `ConfigurationError` where the endpoint cannot be made or opened here.
    """
    endpoint = options.endpoint.endpoint()
    with KEPT.used(
        (options.endpoint, options.group),
        lambda: _opened(endpoint, options.group),
        is_current=lambda one: one.is_current(endpoint),
    ) as lent:
        yield lent
        lent.consumer.unassign()
        del lent.errors[:-_ERRORS_MAX]


def _opened(endpoint: Endpoint, group: str | None) -> SourceConsumer:
    errors: list[KafkaError] = []
    key = _key(endpoint)
    return SourceConsumer(open_source_consumer(endpoint, group, errors), errors, key)


def _key(endpoint: Endpoint) -> object:
    if endpoint.credential is None:
        return None
    # Through the properties, because that reads a file or callable again.
    return endpoint.client_properties().get("sasl.password")
