"""OpenTelemetry's names for messaging, of one version of its conventions, and their older ones. Pure.

They are still in development and change from version to version: a new `VERSION` needs a look at every name
here. Those of version 1.24, which most dashboards know, are added where the environment variable
`OTEL_SEMCONV_STABILITY_OPT_IN` has `messaging/dup`, as the conventions want it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "1.44.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{VERSION}"
OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"

SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
BATCH_COUNT: Final = "messaging.batch.message_count"
BODY_BYTES: Final = "messaging.message.body.size"
SERVER_ADDRESS: Final = "server.address"
ERROR_TYPE: Final = "error.type"
# What the conventions have no name for.
ATTEMPT: Final = "ehkafka.attempt"
ANSWER: Final = "ehkafka.answer"
FAILED_COUNT: Final = "ehkafka.batch.failed_count"

KAFKA: Final = "kafka"  # of Event Hubs, too: what is spoken is Kafka
PROCESS: Final = "process"
SEND: Final = "send"
SETTLE: Final = "settle"
# An error that has no name of its own.
OTHER: Final = "_OTHER"

Attribute = str | int | bool
Attributes = dict[str, Attribute]

# Version 1.24: the names that are others now.
OLD_OPERATION: Final = "messaging.operation"
OLD_GROUP: Final = "messaging.kafka.consumer.group"
OLD_PARTITION: Final = "messaging.kafka.destination.partition"
OLD_OFFSET: Final = "messaging.kafka.message.offset"


def wants_both(environment: Mapping[str, str]) -> bool:
    """Tell whether the names of version 1.24 are to be added to the new ones."""
    return "messaging/dup" in (part.strip() for part in environment.get(OPT_IN, "").split(","))


def operation(name: str) -> Attributes:
    """Return what every span has; the type of each of our operations is called as the operation is."""
    return {SYSTEM: KAFKA, OPERATION_NAME: name, OPERATION_TYPE: name}


def with_old_names(attributes: Attributes) -> Attributes:
    """Return the attributes and those of version 1.24."""
    old: Attributes = {}
    if OPERATION_TYPE in attributes:
        name = attributes[OPERATION_TYPE]
        old[OLD_OPERATION] = "publish" if name == SEND else name
    if PARTITION in attributes:
        old[OLD_PARTITION] = int(attributes[PARTITION])
    for name, old_name in ((GROUP, OLD_GROUP), (OFFSET, OLD_OFFSET)):
        if name in attributes:
            old[old_name] = attributes[name]
    return attributes | old
