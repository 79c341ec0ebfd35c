"""What a program writes: each name at the root of `ehkafka`, once.

`import X as X` says to type checkers that a name is public. What is only read lives in its room:
`ehkafka.errors`, `.events`, `.telemetry`; the rooms below are there after a bare `import ehkafka`, too.
"""

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
