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

import importlib
import typing

if typing.TYPE_CHECKING:
    from ehkafka.app import App
    from ehkafka.checkpoints.blob_mirror import BlobMirror
    from ehkafka.consumer import Consumer, DeserializingConsumer
    from ehkafka.endpoint import Endpoint
    from ehkafka.errors import (
        ConfigurationError,
        EhkafkaError,
        EndpointError,
        EngineError,
        FencedError,
        GroupInUseError,
        HandlerFailedError,
        MissingExtraError,
        OffsetGapError,
        TopicNotFoundError,
        UnfinishedError,
    )
    from ehkafka.events import Event, Hook
    from ehkafka.handlers.adapt import adapt
    from ehkafka.lanes.order import by_key, by_partition, by_topic_partition, unordered
    from ehkafka.records import Record, TopicPartition
    from ehkafka.records.batch import Batch
    from ehkafka.records.deferral import Deferred, defer
    from ehkafka.records.signals import RejectRecord, RetryLater, SkipRecord
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.recovery.policy import DeadLetter, Hold, Skip, Stop
    from ehkafka.recovery.retry import Retry
    from ehkafka.telemetry.snapshot import Health, PartitionSnapshot, Snapshot
    from ehkafka.workers.processes.option import Processes

__version__ = "0.1.0.dev0"

__all__ = [
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
    "GroupInUseError",
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
    "UnfinishedError",
    "adapt",
    "by_key",
    "by_partition",
    "by_topic_partition",
    "defer",
    "unordered",
]

# Where each name lives. Loaded when it is asked for: many processes need little of the package, such as those
# that read for Spark.
_HOMES: dict[str, tuple[str, ...]] = {
    "app": ("App",),
    "checkpoints.blob_mirror": ("BlobMirror",),
    "consumer": (
        "Consumer",
        "DeserializingConsumer",
    ),
    "endpoint": ("Endpoint",),
    "errors": (
        "UnfinishedError",
        "ConfigurationError",
        "EhkafkaError",
        "EndpointError",
        "EngineError",
        "FencedError",
        "GroupInUseError",
        "HandlerFailedError",
        "MissingExtraError",
        "OffsetGapError",
        "TopicNotFoundError",
    ),
    "events": (
        "Event",
        "Hook",
    ),
    "handlers.adapt": ("adapt",),
    "lanes.order": (
        "by_key",
        "by_partition",
        "by_topic_partition",
        "unordered",
    ),
    "records": (
        "Record",
        "TopicPartition",
    ),
    "records.batch": ("Batch",),
    "records.deferral": (
        "Deferred",
        "defer",
    ),
    "records.signals": (
        "RejectRecord",
        "RetryLater",
        "SkipRecord",
    ),
    "recovery.letters.letter": ("Letter",),
    "recovery.policy": (
        "DeadLetter",
        "Hold",
        "Skip",
        "Stop",
    ),
    "recovery.retry": ("Retry",),
    "telemetry.snapshot": (
        "Health",
        "PartitionSnapshot",
        "Snapshot",
    ),
    "workers.processes.option": ("Processes",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Rooms that `dir` shows. Each other part of the package is there too when it is asked for.
_ROOMS = frozenset(
    {
        "app",
        "checkpoints",
        "endpoint",
        "errors",
        "events",
        "headers",
        "records",
        "recovery",
        "settings",
        "telemetry",
    }
)


if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> typing.Any:
        """Load a name's home, or the part of the package that is called so, once."""
        if name in _HOME_OF:
            value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
            globals()[name] = value
            return value
        part = f"{__name__}.{name}"
        # No part begins with an underscore, and what inspects modules asks for many names that do.
        if name.isidentifier() and not name.startswith("_"):
            try:
                return importlib.import_module(part)
            except ModuleNotFoundError as error:
                if error.name != part:  # something that the part needs
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
