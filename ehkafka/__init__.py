"""ehkafka: consume Azure Event Hubs and Apache Kafka with strict order per key and high concurrency.

How a record flows: the poll thread takes batches from the broker (`intake`), each record joins the lane
of its key (`lanes`), a worker calls the handler for one lane at a time (`workers`), a raise goes to the
failure desk (`recovery`), and the committer sends the offset below which everything has an outcome
(`progress`). `App` joins these; `App.snapshot()`, `App.health()` and the event catalogue (`events`) show
them. `Endpoint` says where the broker is.

Threads: `ehkafka-poll` alone owns the `Consumer` and never calls a handler; workers own nothing shared;
`ehkafka-hooks` runs partition hooks, `ehkafka-telemetry` logs and calls event hooks.

What always holds: a committed offset never passes a received record without an outcome; two records of
one key never overlap or swap within an assignment; a slow or failing key delays only itself until the
backlog's limit; nothing is dropped silently. DESIGN.md has the reasons.
"""

import typing

from ehkafka.adapting import adapt
from ehkafka.app import App
from ehkafka.batches import Batch
from ehkafka.checkpoints.blob_mirror import BlobMirror
from ehkafka.endpoint import Endpoint
from ehkafka.errors import (
    AbandonedError,
    ConfigurationError,
    EhkafkaError,
    EndpointError,
    EngineError,
    FencedError,
    HandlerFailedError,
    MissingExtraError,
    OffsetGapError,
    TopicNotFoundError,
)
from ehkafka.events import Event, Hook
from ehkafka.lanes.order import by_key, by_partition, by_topic_partition, unordered
from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.deferral import Deferred, defer
from ehkafka.recovery.letter import Letter
from ehkafka.recovery.policy import DeadLetter, Hold, Skip, Stop
from ehkafka.recovery.retry import Retry
from ehkafka.recovery.signals import RejectRecord, RetryLater, SkipRecord
from ehkafka.telemetry.snapshot import Health, PartitionSnapshot, Snapshot
from ehkafka.workers.processes import Processes

if typing.TYPE_CHECKING:
    from ehkafka.consumer import Consumer, DeserializingConsumer

__version__ = "0.1.0.dev0"

__all__ = [
    "AbandonedError",
    "App",
    "Batch",
    "BlobMirror",
    "ConfigurationError",
    "Consumer",
    "DeadLetter",
    "Deferred",
    "DeserializingConsumer",
    "EhkafkaError",
    "Endpoint",
    "EndpointError",
    "EngineError",
    "Event",
    "FencedError",
    "HandlerFailedError",
    "Health",
    "Hold",
    "Hook",
    "Letter",
    "MissingExtraError",
    "OffsetGapError",
    "PartitionSnapshot",
    "Processes",
    "Record",
    "RejectRecord",
    "Retry",
    "RetryLater",
    "Skip",
    "SkipRecord",
    "Snapshot",
    "Stop",
    "TopicNotFoundError",
    "TopicPartition",
    "adapt",
    "by_key",
    "by_partition",
    "by_topic_partition",
    "defer",
    "unordered",
]

_LAZY = frozenset({"Consumer", "DeserializingConsumer"})


def __getattr__(name: str) -> typing.Any:
    """Load the drop-in when it is asked for: an app does not need it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ehkafka import consumer  # noqa: PLC0415 - see above

    return getattr(consumer, name)
