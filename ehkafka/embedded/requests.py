"""Names of Kafka's request types, and the requests that an embedded broker has seen.

Values only: tests use them to say which request is to fail and to count what was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Self

from ehkafka.embedded.numbers import is_whole
from ehkafka.errors import ConfigurationError


class ApiKey(IntEnum):
    """A request type of the Kafka protocol; numbers from Kafka's protocol guide."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    CONSUMER_GROUP_HEARTBEAT = 68
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72


def check_api_key(api_key: Any) -> ApiKey:
    """Return the request type that it is. Raises `ConfigurationError` for anything else."""
    try:
        return ApiKey(api_key)
    except ValueError as error:
        raise ConfigurationError(f"{api_key!r:.80} is no request type: give one of ApiKey.") from error


def check_code(code: Any) -> int:
    """Return a code that an answer has room for. Raises `ConfigurationError` for anything else."""
    if not is_whole(code, -(2**15), 2**15 - 1):
        raise ConfigurationError(f"{code!r:.80} is no error code: give one of confluent_kafka.KafkaError.")
    return int(code)


@dataclass(frozen=True, slots=True)
class TrackedRequest:
    """One request that reached an embedded broker. Made by `EmbeddedBroker.requests`."""

    # Its type; a plain number where `ApiKey` has no name for it.
    api_key: ApiKey | int
    # The broker that it reached, from 1.
    broker_id: int
    # On the clock of `time.monotonic()`.
    received_at_s: float

    @classmethod
    def from_wire(cls, api_key: int, broker_id: int, received_us: int) -> Self:
        """Inner: build one from librdkafka's numbers."""
        known = api_key in ApiKey._value2member_map_
        return cls(ApiKey(api_key) if known else api_key, broker_id, received_us / 1e6)
