"""The properties of a reader's consumers, and how one is opened.

Whatever would move or keep positions by itself is ours and refused.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import check_client_version, open_consumer
from ehkafka.endpoint.client_name import client_name
from ehkafka.endpoint.properties import setting_checks
from ehkafka.endpoint.properties.layers import check_idle_times
from ehkafka.endpoint.properties.setting_checks import Owned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.endpoint import Endpoint
    from ehkafka.ranges.options import RangeOptions

# Each was measured to matter for short reads of known ranges.
_DEFAULTS: dict[str, Any] = {
    # A fetch that waits at the log's end delays the consumer's next assignment by as much.
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 5,
    # What is prefetched beyond a piece's end is thrown away.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 65_536,
    "check.crcs": True,
    "socket.receive.buffer.bytes": 4 * 1024 * 1024,
    "socket.keepalive.enable": True,
}

_OWNED = (
    *(
        Owned(name, value=False, reason="reading commits nothing", fix="Leave it out")
        for name in ("enable.auto.commit", "enable.auto.offset.store")
    ),
    Owned(
        "auto.offset.reset",
        value="error",
        reason="a reset must never be silent",
        fix="Leave it out: the reader's options name the start, and what becomes of records that are gone",
    ),
    Owned(
        "enable.partition.eof",
        value=True,
        reason="nothing else shows the end of a compacted log",
        fix="Leave it out",
    ),
)


@dataclass(slots=True)
class OpenConsumer:
    """A consumer, and what it has heard since it was opened or handed out."""

    consumer: Consumer
    errors: list[KafkaError] = field(default_factory=list)
    # The password that it was opened with, where it is kept: to notice a rotated one.
    opened_with: object = field(default=None, repr=False)


def client_properties(endpoint: Endpoint, group: str | None, name: str) -> dict[str, Any]:
    """Return the properties of a consumer, secrets in the clear. Raises `ConfigurationError`.

    `name` begins the client's name. Without `group` it is the group's as well, which is never joined nor
    committed to: a consumer needs one.
    """
    asked = endpoint.client_properties()
    setting_checks.check_owned(asked, _OWNED)
    result = {
        "client.id": client_name(name),
        **_DEFAULTS,
        **asked,
        **{rule.name: rule.value for rule in _OWNED},
    }
    result["group.id"] = group or name
    if endpoint.is_event_hubs:
        setting_checks.check_protocol(result, is_emulator=endpoint.kind == "emulator")
        check_idle_times(result)
    return result


def open_reader(options: RangeOptions, errors: list[KafkaError], **callbacks: Any) -> Consumer:
    """Open a consumer that subscribes to nothing; what librdkafka tells by the way goes to `errors`."""
    check_client_version()
    properties = client_properties(options.broker(), options.group, options.words.client)
    logger = logging.getLogger(f"{options.words.logger}.client")
    return open_consumer(properties, error_cb=errors.append, logger=logger, **callbacks)


@contextmanager
def opened(options: RangeOptions) -> Iterator[OpenConsumer]:
    """Hand out a consumer, and close it afterwards. Raises `ConfigurationError`."""
    errors: list[KafkaError] = []
    consumer = open_reader(options, errors)
    try:
        yield OpenConsumer(consumer, errors)
    finally:
        consumer.close()
