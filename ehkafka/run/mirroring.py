"""Joins one run with its mirror: who tells the mirror what, and who asks it.

Called by `Runtime`, before any thread of the run exists and at its end. Opens no connection: the mirror's
thread does.
"""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

from ehkafka.checkpoints.layout import Layout, namespace_of
from ehkafka.checkpoints.mirror.mirror import Mirror
from ehkafka.endpoint.client_name import host_name
from ehkafka.errors import ConfigurationError
from ehkafka.positions.mirror_start import MirrorEvidence, MirrorRanges, MirrorStart
from ehkafka.progress.read_back import ReadBack

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Mapping

    from ehkafka.checkpoints.checkpoint import MirrorState
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.intake.context import IntakeContext
    from ehkafka.progress.position import Progress
    from ehkafka.records import TopicPartition
    from ehkafka.run.log_identity import LogIdentity
    from ehkafka.settings import Settings
    from ehkafka.telemetry.bus import EventBus

# The least that a stop gives the mirror, and the most: a store that is away must not hold up a restart.
FLUSH_LEAST_S = 1.0
FLUSH_MOST_S = 5.0
# A question that is under way at a stop is worth no more.
READ_BACK_S = 1.0


class Mirroring:
    """The mirror of one run, or its absence: without `choice` there is only `on_no_group_offsets`."""

    def __init__(
        self,
        choice: MirrorChoice | None,
        endpoint: Endpoint,
        settings: Settings,
        topics: Collection[str],
        bus: EventBus,
    ) -> None:
        """Raise `ConfigurationError` for what cannot be mirrored."""
        self._endpoint = endpoint
        self._settings = settings
        self._bus = bus
        self._mirror: Mirror | None = None
        self._read_back: ReadBack | None = None
        if choice is not None:
            layout = Layout(choice.namespace or namespace_of(endpoint.name), settings.group)
            check_topics(layout, topics)
            self._mirror = Mirror(
                choice.open_store(),
                layout,
                owner=run_name(),
                interval_s=choice.interval_s,
                emit=bus.emit,
            )

    def attach(self, context: IntakeContext, logs: LogIdentity) -> None:
        """Connect with the poll thread's parts, before there is a poll thread."""
        mirror, settings = self._mirror, self._settings
        start = MirrorStart(
            settings.on_no_group_offsets,
            group=settings.group,
            emit=self._bus.emit,
            mirror=mirror,
            prove=logs.asker.prove,
        )
        context.positions.without_commit = start.find
        context.positions.facts_of_copies = start.facts
        if mirror is None:
            return
        committer, ranges = context.committer, MirrorRanges(mirror, self._bus.emit)
        read_back = self._read_back = ReadBack(logs.open_consumer, mirror.metadata_returned)

        def on_acknowledged(stored: Mapping[TopicPartition, tuple[int, Progress]]) -> None:
            # `waited_s` counts from when the commit was sent whose answer this is.
            mirror.acknowledged(stored, time.monotonic() - committer.waited_s())
            read_back.acknowledged(stored)

        def on_epoch_begin(partition: TopicPartition, epoch: int, committed: int | None) -> None:
            mirror.assigned(partition, epoch, committed, is_ours=ranges.is_ours(partition))

        committer.listen(on_acknowledged)
        context.owned.saver.is_mirrored = True
        context.restore.sources.append(ranges)
        context.positions.evidence = MirrorEvidence(mirror).facts
        context.on_epoch_begin = on_epoch_begin
        context.on_epoch_end = mirror.ended

    def start(self) -> None:
        """Start the mirror's thread."""
        if self._mirror is not None:
            self._mirror.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the mirror's."""
        return self._mirror is not None and self._mirror.owns(thread)

    def stop(self, *, deadline_s: float, at_once: bool) -> None:
        """Write what is owed by the deadline (monotonic), within bounds of our own, and end."""
        if self._mirror is not None:
            if self._read_back is not None:
                self._read_back.stop(0.0 if at_once else READ_BACK_S)
            left_s = 0.2 if at_once else max(FLUSH_LEAST_S, deadline_s - time.monotonic())
            self._mirror.stop(min(left_s, FLUSH_MOST_S))

    @property
    def state(self) -> MirrorState | None:
        """How far behind the mirror is; None without one."""
        return self._mirror.state() if self._mirror is not None else None

    @property
    def problem(self) -> str | None:
        """What is wrong with the mirror for too long."""
        return self._mirror.problem if self._mirror is not None else None


def check_topics(layout: Layout, topics: Collection[str]) -> None:
    """Refuse topics that have no name in a store, or share one. Raises `ConfigurationError`."""
    names: dict[str, str] = {}
    for topic in sorted(topics):
        other = names.setdefault(layout.name(topic, 0), topic)
        if other != topic:
            raise ConfigurationError(
                f"The topics {other!r} and {topic!r} differ in case alone, and blobs have lower-case names: "
                "their mirrors would overwrite each other. Consume one of them in an app of its own."
            )


def run_name() -> str:
    """Return a name for this run that nobody else has: host, process, and eight random digits."""
    return f"{host_name()}-{os.getpid()}-{secrets.token_hex(4)}"
