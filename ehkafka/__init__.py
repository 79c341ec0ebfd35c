"""ehkafka: consume Azure Event Hubs and Apache Kafka with strict order per key and high concurrency.

How a record flows: the poll thread takes batches from the broker (`intake`) and puts each record into the
inbox of a worker, behind the others of its key (`lanes`), the worker calls the handler (`workers`), a raise
goes to the `Failures` (`recovery`), and the committer sends the offset below which everything has a result
(`progress`). `App` joins these; `App.snapshot()`, `App.health()` and the event catalogue (`events`) show
them. `Endpoint` says where the broker is. The names that a program writes stand below; what it only reads has
its room: `ehkafka.errors`, `.events`, `.telemetry`.

Threads: `ehkafka-poll` alone owns the `Consumer` and never calls a handler; workers own nothing shared;
`ehkafka-hooks` runs partition hooks, `ehkafka-telemetry` logs and calls event hooks.

What always holds: a committed offset never passes a received record without an outcome; two records of
one key never overlap or swap within a process; a slow or failing key delays only itself until the
backlog's limit; nothing is dropped silently. DESIGN.md has the reasons.
"""

import importlib
import typing

__version__ = "0.1.0a1"

# Each name that a program writes, and its module. A name is loaded when a program asks for it: many
# processes need little of the package, such as those that read for Spark.
_MODULES = {
    "App": "ehkafka.app",
    "Auto": "ehkafka.workers.auto",
    "Batch": "ehkafka.records.batch",
    "BlobMirror": "ehkafka.checkpoints.blob_mirror",
    "Consumer": "ehkafka.consumer",
    "DeadLetter": "ehkafka.recovery.policy",
    "Deferred": "ehkafka.records.deferral",
    "DeserializingConsumer": "ehkafka.consumer",
    "EhkafkaError": "ehkafka.errors",
    "Endpoint": "ehkafka.endpoint",
    "Hold": "ehkafka.recovery.policy",
    "Letter": "ehkafka.recovery.letters.letter",
    "Processes": "ehkafka.workers.processes.option",
    "Record": "ehkafka.records",
    "RejectRecord": "ehkafka.records.signals",
    "Retry": "ehkafka.recovery.retry",
    "RetryLater": "ehkafka.records.signals",
    "Send": "ehkafka.outputs.send",
    "Skip": "ehkafka.recovery.policy",
    "SkipRecord": "ehkafka.records.signals",
    "Stop": "ehkafka.recovery.policy",
    "TopicPartition": "ehkafka.records",
    "adapt": "ehkafka.handlers.adapt",
    "by_key": "ehkafka.lanes.order",
    "by_partition": "ehkafka.lanes.order",
    "by_topic_partition": "ehkafka.lanes.order",
    "defer": "ehkafka.records.deferral",
    "unordered": "ehkafka.lanes.order",
}

if typing.TYPE_CHECKING:  # `X as X` says that a name is public
    from ehkafka import app as app
    from ehkafka import checkpoints as checkpoints
    from ehkafka import endpoint as endpoint
    from ehkafka import errors as errors
    from ehkafka import events as events
    from ehkafka import headers as headers
    from ehkafka import records as records
    from ehkafka import recovery as recovery
    from ehkafka import settings as settings
    from ehkafka import telemetry as telemetry
    from ehkafka.app import App as App
    from ehkafka.checkpoints.blob_mirror import BlobMirror as BlobMirror
    from ehkafka.consumer import Consumer as Consumer
    from ehkafka.consumer import DeserializingConsumer as DeserializingConsumer
    from ehkafka.endpoint import Endpoint as Endpoint
    from ehkafka.errors import EhkafkaError as EhkafkaError
    from ehkafka.handlers.adapt import adapt as adapt
    from ehkafka.lanes.order import by_key as by_key
    from ehkafka.lanes.order import by_partition as by_partition
    from ehkafka.lanes.order import by_topic_partition as by_topic_partition
    from ehkafka.lanes.order import unordered as unordered
    from ehkafka.outputs.send import Send as Send
    from ehkafka.records import Record as Record
    from ehkafka.records import TopicPartition as TopicPartition
    from ehkafka.records.batch import Batch as Batch
    from ehkafka.records.deferral import Deferred as Deferred
    from ehkafka.records.deferral import defer as defer
    from ehkafka.records.signals import RejectRecord as RejectRecord
    from ehkafka.records.signals import RetryLater as RetryLater
    from ehkafka.records.signals import SkipRecord as SkipRecord
    from ehkafka.recovery.letters.letter import Letter as Letter
    from ehkafka.recovery.policy import DeadLetter as DeadLetter
    from ehkafka.recovery.policy import Hold as Hold
    from ehkafka.recovery.policy import Skip as Skip
    from ehkafka.recovery.policy import Stop as Stop
    from ehkafka.recovery.retry import Retry as Retry
    from ehkafka.workers.auto import Auto as Auto
    from ehkafka.workers.processes.option import Processes as Processes
else:
    __all__ = sorted(_MODULES)  # noqa: PLE0605 - it is a list of texts

    def __getattr__(name: str) -> typing.Any:
        """Load a name of the table, or a room of the package."""
        if name in _MODULES:
            value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
            return value
        # No room begins with an underscore, and tools that inspect modules ask for many names that do.
        if name.isidentifier() and not name.startswith("_"):
            room = f"{__name__}.{name}"
            try:
                return importlib.import_module(room)
            except ModuleNotFoundError as error:
                if error.name != room:  # a module that the room imports is missing
                    raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
