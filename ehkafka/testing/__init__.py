"""Testing kit."""

from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.mock_cluster import EmbeddedBrokerError
from ehkafka.embedded.requests import ApiKey, TrackedRequest
from ehkafka.testing.checker.checker import Checker, check_history
from ehkafka.testing.checker.checking_history import CheckingHistory
from ehkafka.testing.checker.history import MemoryHistory
from ehkafka.testing.checker.history_file import JsonLinesHistory, read_history
from ehkafka.testing.checker.verdict import Measure, Verdict
from ehkafka.testing.clock import VirtualClock

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
