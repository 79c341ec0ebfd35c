"""One consumer for each worker process and configuration, kept between tasks.

Spark uses its Python workers again, one task at a time; to connect anew for each task would cost more than
to read. A consumer is taken out of the cache while it is used, so a task that was given up in the middle
cannot spoil the next task's. Never shared over a fork. Called by `reading`, on the task's thread.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.spark.source.client import open_source_consumer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.endpoint import Endpoint
    from ehkafka.spark.secrets import NamedEndpoint
    from ehkafka.spark.source.options import SourceOptions

# What librdkafka reported apart from the records; only the last of it explains a time-out.
_ERRORS_MAX = 20


@dataclass(slots=True)
class SourceConsumer:
    """A consumer, and what it has heard since it was lent."""

    consumer: Consumer
    errors: list[KafkaError] = field(default_factory=list)
    # The password that it was opened with, to notice a rotated one. Stays in this process.
    _opened_with: object = field(default=None, repr=False)

    def is_current(self, endpoint: Endpoint) -> bool:
        """Tell whether its key is still the endpoint's; a file is read again for that."""
        return endpoint.credential is None or self._opened_with == _key(endpoint)


_IDLE: dict[tuple[int, NamedEndpoint, str | None], SourceConsumer] = {}


@contextmanager
def borrowed(options: SourceOptions) -> Iterator[SourceConsumer]:
    """Lend this process's consumer; it comes back unassigned, or is closed if the task failed.

    Raises `ConfigurationError` where the endpoint cannot be made or opened here.
    """
    key = (os.getpid(), options.endpoint, options.group)
    endpoint = options.endpoint.endpoint()
    lent = _IDLE.pop(key, None)
    if lent is not None and not lent.is_current(endpoint):
        lent.consumer.close()
        lent = None
    if lent is None:
        lent = _opened(endpoint, options.group)
    try:
        yield lent
        lent.consumer.unassign()
    except BaseException:
        # Whatever state it is in: the next task gets a new one.
        lent.consumer.close()
        raise
    del lent.errors[:-_ERRORS_MAX]
    if key in _IDLE:
        lent.consumer.close()
    else:
        _IDLE[key] = lent


def _opened(endpoint: Endpoint, group: str | None) -> SourceConsumer:
    errors: list[KafkaError] = []
    key = _key(endpoint)
    return SourceConsumer(open_source_consumer(endpoint, group, errors), errors, key)


def _key(endpoint: Endpoint) -> object:
    if endpoint.credential is None:
        return None
    # Through the properties, because that reads a file or callable again.
    return endpoint.client_properties().get("sasl.password")
