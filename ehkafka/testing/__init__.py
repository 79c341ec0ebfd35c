"""Testing kit."""

from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.mock_cluster import EmbeddedBrokerError
from ehkafka.embedded.requests import ApiKey, TrackedRequest
from ehkafka.testing.checker import Checker, check_history
from ehkafka.testing.checking_history import CheckingHistory
from ehkafka.testing.clock import VirtualClock
from ehkafka.testing.history import MemoryHistory
from ehkafka.testing.history_file import JsonLinesHistory, read_history
from ehkafka.testing.verdict import Measure, Verdict

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
