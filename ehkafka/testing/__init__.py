"""Testing kit."""

from ehkafka.testing.checker import Checker, check_history
from ehkafka.testing.checking_history import CheckingHistory
from ehkafka.testing.clock import VirtualClock
from ehkafka.testing.embedded import EmbeddedBroker
from ehkafka.testing.history import MemoryHistory
from ehkafka.testing.history_file import JsonLinesHistory, read_history
from ehkafka.testing.mock_cluster import EmbeddedBrokerError
from ehkafka.testing.verdict import Measure, Verdict
from ehkafka.testing.wire_requests import ApiKey, TrackedRequest

__all__ = [
    "ApiKey",
    "Checker",
    "CheckingHistory",
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "JsonLinesHistory",
    "Measure",
    "MemoryHistory",
    "TrackedRequest",
    "Verdict",
    "VirtualClock",
    "check_history",
    "read_history",
]
