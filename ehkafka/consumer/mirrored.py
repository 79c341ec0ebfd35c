"""The mirror of one drop-in consumer, or its absence.

The thread that sent a commit tells it what the broker acknowledged; the polling thread asks it, at an
assignment, where partitions begin that the group has no commit for. The same rooms as an app's.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.mirror import Mirror
from ehkafka.positions.mirror_start import MirrorStart, mirror_evidence
from ehkafka.positions.without_commit import refuse_waiting
from ehkafka.records import TopicPartition
from ehkafka.run.mirroring import check_topics, run_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.positions.log_asker import LogAsker
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import Position
    from ehkafka.progress.metadata import LogFacts

FLUSH_S = 5.0


class Mirrored:
    """Joins a consumer with its mirror. Without `choice` every call does nothing."""

    def __init__(
        self,
        choice: MirrorChoice | None,
        endpoint: Endpoint | None,
        config: Mapping[str, object],
        emit: Callable[[Event], None],
        asker: LogAsker,
    ) -> None:
        """Raise `ConfigurationError` for what cannot be mirrored."""
        self._mirror: Mirror | None = None
        self._layout: Layout | None = None
        # Replaced by the polling thread, never changed; read by the thread that sends a commit.
        self._epochs: Mapping[TopicPartition, int] = {}
        self._last_epoch = 0
        # The group's commits of what is being assigned. The polling thread's alone.
        self._commits: dict[TopicPartition, KafkaPartition] = {}
        if choice is None:
            return
        host = endpoint.name if endpoint is not None else str(config.get("bootstrap.servers", "kafka"))
        namespace = choice.namespace or host.replace("/", "-").replace(" ", "-").split(":")[0]
        self._layout = Layout(namespace, str(config.get("group.id")))
        self._mirror = Mirror(
            choice.open_store(), self._layout, owner=run_name(), interval_s=choice.interval_s, emit=emit
        )
        self._start = MirrorStart(
            "mirror",
            group=self._layout.group,
            emit=emit,
            mirror=self._mirror,
            prove=asker.prove,
        )

    def start(self, committer: Committer) -> None:
        """Begin to listen."""
        mirror = self._mirror
        if mirror is None:
            return

        def on_acknowledged(stored: Mapping[TopicPartition, Position]) -> None:
            sent_s = time.monotonic() - committer.waited_s()
            epochs = self._epochs
            ours = {p: one._replace(epoch=epochs[p]) for p, one in stored.items() if p in epochs}
            mirror.acknowledged(ours, sent_s)

        committer.listen(on_acknowledged)
        mirror.start()

    def subscribed(self, topics: Collection[str]) -> None:
        """Refuse topics whose mirrors would overwrite each other. Raises `ConfigurationError`."""
        if self._layout is not None:
            check_topics(self._layout, [topic for topic in topics if not topic.startswith("^")])

    def begin_at(
        self, partitions: Sequence[KafkaPartition], commits: Mapping[TopicPartition, KafkaPartition]
    ) -> tuple[list[KafkaPartition], Mapping[TopicPartition, LogFacts]]:
        """Return the partitions, with offsets for those that begin at the mirror, by the group's commits.

        And what the mirror knows of the logs of commits that say nothing. Raises `EndpointError`.
        """
        if self._mirror is None or not partitions:
            return list(partitions), {}
        self._commits = dict(commits)
        silent = {name: at.offset for name, at in commits.items() if not at.metadata}
        known = mirror_evidence(self._mirror, silent) if silent else {}
        names = [TopicPartition(p.topic, p.partition) for p in partitions]
        found = self._start.find([name for name in names if name not in commits], ())
        refuse_waiting(found.waiting)
        offsets = found.offsets
        return [
            KafkaPartition(*name, offsets[name]) if name in offsets else p
            for name, p in zip(names, partitions, strict=True)
        ], known

    @property
    def is_on(self) -> bool:
        """Whether there is a mirror."""
        return self._mirror is not None

    def assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """These are ours from now on."""
        if self._mirror is None:
            return
        for partition in partitions:
            self._last_epoch += 1
            self._epochs = {**self._epochs, partition: self._last_epoch}
            at = self._commits.pop(partition, None)
            self._mirror.assigned(partition, self._last_epoch, None if at is None else at.offset)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """These are not ours any more."""
        if self._mirror is None:
            return
        for partition in partitions:
            if (epoch := self._epochs.get(partition)) is not None:
                self._epochs = {p: one for p, one in self._epochs.items() if p != partition}
                self._mirror.ended(partition, epoch)

    def stop(self) -> None:
        """Write what is owed, and end."""
        if self._mirror is not None:
            self._mirror.stop(FLUSH_S)
