"""What a test does to a group and its mirror from outside: commits, blobs, and apps around a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata, read_checkpoint
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.progress.metadata import CommitMetadata, LogFacts, decode, encode
from tests.kit.bad_store import BadStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checkpoints.checkpoint import Checkpoint

LAYOUT = Layout("ns", "g")


def _consumer(lab: Any, group: str = "g") -> Consumer:
    return Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": group})


def commit(
    lab: Any, next_offset: int, group: str = "g", *, topic: str = "t", partition: int = 0, metadata: str = ""
) -> None:
    """Let the group have a commit, as an operator would before it ever had a member."""
    consumer = _consumer(lab, group)
    try:
        place = KafkaPartition(topic, partition, next_offset, metadata=metadata)
        consumer.commit(offsets=[place], asynchronous=False)
    finally:
        consumer.close()


def commit_of(lab: Any, partition: int = 0, topic: str = "t") -> tuple[int, str]:
    """Return the next_offset and the metadata that the group has now."""
    consumer = _consumer(lab)
    try:
        (found,) = consumer.committed([KafkaPartition(topic, partition)], timeout=10.0)
        return found.offset, found.metadata or ""
    finally:
        consumer.close()


def finished_in(lab: Any) -> tuple[tuple[int, int], ...]:
    """Return the ranges that the group's commit says are finished."""
    offset, metadata = commit_of(lab)
    decoded = decode(metadata, offset)
    return decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()


def text_of(next_offset: int, *finished: tuple[int, int], **facts: Any) -> str:
    """Return the metadata of a commit of ours with these ranges and facts."""
    return encode(next_offset, LogFacts(**facts), finished, 0 if finished else None, 1024).text or ""


def timestamp_ms(lab: Any, offset: int, partition: int = 0, topic: str = "t") -> int:
    """Return the timestamp of a record in the log."""
    consumer = _consumer(lab, "reads")
    try:
        consumer.assign([KafkaPartition(topic, partition, offset)])
        message = consumer.poll(10.0)
        assert message is not None
        assert message.error() is None
        return message.timestamp()[1]
    finally:
        consumer.close()


class Mirrored:
    """A store, and apps that mirror into it."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.events = lab.events
        self.store = BadStore()

    def app(self, handler: Any, *topics: str, **options: Any) -> Any:
        """Return an app with a mirror."""
        mirror = StoreMirror(store=self.store, interval_s=0.1, namespace="ns")
        return self.lab.app(handler, *topics, mirror=mirror, **options)

    def start(self, handler: Any, *topics: str, **options: Any) -> Any:
        """Start one."""
        app = self.app(handler, *topics, **options)
        app.start()
        return app

    def blob(self, partition: int = 0, topic: str = "t") -> Any:
        """What lies there, past the faults."""
        return MemoryStore.read(self.store, LAYOUT.name(topic, partition))

    def checkpoint(self, partition: int = 0, topic: str = "t") -> Checkpoint | None:
        """What the mirror has, past the faults."""
        blob = self.blob(partition, topic)
        return read_checkpoint(blob.body) if blob else None

    def next_offset(self, partition: int = 0, topic: str = "t") -> int | None:
        """How far the mirror is."""
        found = self.checkpoint(partition, topic)
        return found.next_offset if found else None

    def put(self, checkpoint: Checkpoint, metadata: Mapping[str, str] | None = None) -> None:
        """Write what an earlier run has left, and the metadata that another program has set since."""
        there = self.blob()
        MemoryStore.write(
            self.store,
            LAYOUT.name("t", 0),
            metadata=checkpoint_metadata(checkpoint) if metadata is None else metadata,
            body=checkpoint_body(checkpoint),
            expected=there.version if there else None,
        )
