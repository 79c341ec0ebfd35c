"""Testing kit."""

from ehkafka.testing.embedded import EmbeddedBroker
from ehkafka.testing.mock_cluster import EmbeddedBrokerError
from ehkafka.testing.wire_requests import ApiKey, TrackedRequest

__all__ = ["ApiKey", "EmbeddedBroker", "EmbeddedBrokerError", "TrackedRequest"]
