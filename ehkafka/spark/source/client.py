"""The properties of the source's consumers, and how one is opened.

Whatever would move or keep positions by itself is ours and refused. Called by `consumers` in tasks and by
`log` on the driver.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import check_client_version, open_consumer
from ehkafka.endpoint.client_name import client_name
from ehkafka.endpoint.properties import setting_checks
from ehkafka.endpoint.properties.layers import check_idle_times
from ehkafka.endpoint.properties.setting_checks import Owned

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

    from ehkafka.endpoint import Endpoint

OWN_GROUP = "ehkafka-spark"
"""The group of a source without `groupId`. It is never joined nor committed to; a consumer needs a name."""

# Each was measured to matter for short reads of known ranges.
_DEFAULTS: dict[str, Any] = {
    # A fetch that waits at the log's end delays the worker's next assignment by as much.
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
        Owned(name, value=False, reason="Spark's checkpoint keeps positions", fix="Leave it out")
        for name in ("enable.auto.commit", "enable.auto.offset.store")
    ),
    Owned(
        "auto.offset.reset",
        value="error",
        reason="a reset must never be silent",
        fix="Leave it out and use startingOffsets and failOnDataLoss",
    ),
    Owned(
        "enable.partition.eof",
        value=True,
        reason="nothing else shows the end of a compacted log",
        fix="Leave it out",
    ),
)

_LOG = logging.getLogger("ehkafka.spark.client")


def client_properties(endpoint: Endpoint, group: str | None) -> dict[str, Any]:
    """Return the properties of a consumer, secrets in the clear. Raises `ConfigurationError`."""
    asked = endpoint.client_properties()
    setting_checks.check_owned(asked, _OWNED)
    result = {
        "client.id": client_name("ehkafka-spark"),
        **_DEFAULTS,
        **asked,
        **{rule.name: rule.value for rule in _OWNED},
    }
    result["group.id"] = group or OWN_GROUP
    if endpoint.is_event_hubs:
        setting_checks.check_protocol(result, is_emulator=endpoint.kind == "emulator")
        check_idle_times(result)
    return result


def open_source_consumer(
    endpoint: Endpoint, group: str | None, errors: list[KafkaError], **callbacks: Any
) -> Consumer:
    """Open a consumer that subscribes to nothing; what librdkafka tells by the way goes to `errors`."""
    check_client_version()
    return open_consumer(client_properties(endpoint, group), error_cb=errors.append, logger=_LOG, **callbacks)
