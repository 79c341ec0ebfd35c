"""What a user's own tests need: brokers, an app in a test, fixtures.

It hands on `embedded`, the broker inside of the process. `kafka/` is a real Apache Kafka on this machine, on
`ports` of its own; `checkpoint_stores` tests a store of one's own, `in_test/` runs an app of one's own,
`plugin` has the fixtures. Nothing of it is loaded by an app.
"""

from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.mock_cluster import EmbeddedBrokerError
from ehkafka.embedded.requests import ApiKey, TrackedRequest
from ehkafka.testing.checkpoint_stores import CheckpointStoreSuite
from ehkafka.testing.in_test.app_test import AppTest, AsyncAppTest
from ehkafka.testing.in_test.made_record import make_batch, make_record
from ehkafka.testing.in_test.run import arun, run
from ehkafka.testing.in_test.topic_record import DeadLetterRecord, Handled, HandledRecords, TopicRecord

__all__ = [
    "ApiKey",
    "AppTest",
    "AsyncAppTest",
    "CheckpointStoreSuite",
    "DeadLetterRecord",
    "EmbeddedBroker",
    "EmbeddedBrokerError",
    "Handled",
    "HandledRecords",
    "TopicRecord",
    "TrackedRequest",
    "arun",
    "make_batch",
    "make_record",
    "run",
]
