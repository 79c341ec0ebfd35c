"""The mirror of one drop-in consumer, or its absence.

Told of what the broker acknowledged, by whoever sent the commit; asked at an assignment, by the polling
thread, where partitions begin that the group has no commit for. The same rooms as an app's.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror import Mirror
from ehkafka.endpoint.client import open_admin, open_consumer
from ehkafka.intake.log_asker import LogAsker
from ehkafka.intake.mirror_start import MirrorStart
from ehkafka.intake.topic_ids import TopicIds
from ehkafka.intake.witness import witness_properties
from ehkafka.mirroring import check_topics, run_name
from ehkafka.records import TopicPartition
from ehkafka.secret import HiddenProperties

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.position import Progress

COMMITTED_S = 10.0
FLUSH_S = 5.0
_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit", "logger")


class Mirrored:
    """Joins a consumer with its mirror. Without `choice` every call does nothing."""

    def __init__(
        self,
        choice: MirrorChoice | None,
        endpoint: Endpoint | None,
        config: Mapping[str, Any],
        emit: Callable[[Event], None],
    ) -> None:
        """Raise `ConfigurationError` for what cannot be mirrored."""
        self._mirror: Mirror | None = None
        self._layout: Layout | None = None
        self._properties: Mapping[str, Any] = {}
        # By the polling thread; read by whoever sends a commit, under the lock.
        self._lock = threading.Lock()
        self._epochs: dict[TopicPartition, int] = {}
        self._last_epoch = 0
        # The group's commits of what is being assigned. The polling thread's alone.
        self._commits: dict[TopicPartition, int] = {}
        if choice is None:
            return
        host = endpoint.name if endpoint is not None else str(config.get("bootstrap.servers", "kafka"))
        namespace = choice.namespace or host.replace("/", "-").replace(" ", "-").split(":")[0]
        self._layout = Layout(namespace, str(config.get("group.id")))
        self._mirror = Mirror(
            choice.open_store(), self._layout, owner=run_name(), interval_s=choice.interval_s, emit=emit
        )
        self._asker = LogAsker(TopicIds(self._open_admin), self._open_consumer)
        self._start = MirrorStart(
            "mirror",
            group=self._layout.group,
            emit=emit,
            mirror=self._mirror,
            prove=self._asker.prove,
        )

    def start(self, committer: Committer) -> None:
        """Begin to listen."""
        mirror = self._mirror
        if mirror is None:
            return

        def on_acknowledged(stored: Mapping[TopicPartition, tuple[int, Progress]]) -> None:
            sent_s = time.monotonic() - committer.waited_s()
            with self._lock:
                ours = {p: (self._epochs[p], what) for p, (_, what) in stored.items() if p in self._epochs}
            mirror.acknowledged(ours, sent_s)

        committer.listen(on_acknowledged)
        mirror.start()

    def use(self, properties: Mapping[str, Any]) -> None:
        """Take the properties of the client, for a look at a log."""
        self._properties = HiddenProperties({k: v for k, v in properties.items() if k not in _CALLBACKS})

    def subscribed(self, topics: Collection[str]) -> None:
        """Refuse topics whose mirrors would overwrite each other. Raises `ConfigurationError`."""
        if self._layout is not None:
            check_topics(self._layout, [topic for topic in topics if not topic.startswith("^")])

    def begin_at(self, consumer: Consumer, partitions: Sequence[KafkaPartition]) -> list[KafkaPartition]:
        """Return the partitions, with offsets for those that begin at the mirror. Raises `EndpointError`."""
        if self._mirror is None or not partitions:
            return list(partitions)
        asked = [KafkaPartition(p.topic, p.partition) for p in partitions]
        committed = consumer.committed(asked, timeout=COMMITTED_S)
        self._commits = {_name(p): p.offset for p in committed if p.offset >= 0}
        without = [TopicPartition(p.topic, p.partition) for p in committed if p.offset < 0]
        found = self._start.find(without)
        return [
            KafkaPartition(p.topic, p.partition, found[name]) if (name := _name(p)) in found else p
            for p in partitions
        ]

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These are ours from now on."""
        if self._mirror is None:
            return
        for partition in partitions:
            with self._lock:
                self._last_epoch += 1
                epoch = self._epochs[partition] = self._last_epoch
            self._mirror.assigned(partition, epoch, self._commits.pop(partition, None))

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        if self._mirror is None:
            return
        for partition in partitions:
            with self._lock:
                epoch = self._epochs.pop(partition, None)
            if epoch is not None:
                self._mirror.ended(partition, epoch)

    def stop(self) -> None:
        """Write what is owed, and end."""
        if self._mirror is not None:
            self._asker.stop()
            self._mirror.stop(FLUSH_S)

    def _open_consumer(self) -> Consumer:
        """Open a consumer that joins no group: it is given partitions, and its group commits nothing."""
        return open_consumer(witness_properties(self._properties))

    def _open_admin(self) -> AdminClient:
        return open_admin({**self._properties, "log_level": 0})


def _name(partition: KafkaPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
