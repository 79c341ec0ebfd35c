"""Joins one run with its mirror: which parts write to the mirror, and which read it.

Called by `Runtime`, before any thread of the run exists and at its end. Opens no connection: the mirror's
thread does.
"""

from __future__ import annotations

import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.endpoint.client_name import host_name
from ehkafka.errors import ConfigurationError
from ehkafka.positions.without_commit import WithoutCommit

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterator, Mapping

    from confluent_kafka import TopicPartition as KafkaPartition

    from ehkafka.checkpoints.checkpoint import MirrorState
    from ehkafka.checkpoints.layout import Layout
    from ehkafka.checkpoints.mirror.mirror import Mirror
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.positions.finder import Evidence
    from ehkafka.positions.log_asker import Commits, LogAsker, Question
    from ehkafka.positions.mirror_start import MirrorRanges
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from ehkafka.run.log_identity import LogIdentity
    from ehkafka.run.options import AppOptions
    from ehkafka.telemetry.bus import EventBus

# The least that a stop gives the mirror, and the most: a store that is away must not hold up a restart.
FLUSH_LEAST_S = 1.0
FLUSH_MOST_S = 5.0
# A question that is under way at a stop is worth no more.
READ_BACK_S = 1.0
# A broker that does not answer so often leaves it unknown, for this run.
READ_BACK_TRIES = 3


class MirrorParts(NamedTuple):
    """A run's questions and reports to its mirror; without a mirror, only `start` has an answer."""

    start: WithoutCommit
    evidence: Evidence = lambda _commits: {}
    ranges: MirrorRanges | None = None
    on_epoch_begin: Callable[[TopicPartition, int, int | None], None] = lambda _partition, _epoch, _at: None
    on_epoch_end: Callable[[TopicPartition, int], None] = lambda _partition, _epoch: None


class Mirroring:
    """The mirror of one run, or its absence: without one there is only `on_no_group_offsets`."""

    def __init__(self, app: AppOptions, bus: EventBus) -> None:
        """Raise `ConfigurationError` for what cannot be mirrored."""
        self._settings = app.settings
        self._now_s = app.clock.now_s
        self._bus = bus
        self._mirror = None if app.mirror is None else _open_mirror(app, app.mirror, bus)
        self._read_back: ReadBack | None = None

    def join(self, logs: LogIdentity, committer: Committer) -> MirrorParts:
        """Have the mirror hear of each acknowledged commit; return what a run asks and tells it.

        Once, before the first commit.
        """
        mirror, settings = self._mirror, self._settings
        if mirror is None:
            return MirrorParts(WithoutCommit(settings.on_no_group_offsets, group=settings.group))
        # What a mirror needs is not for the many apps without one.
        from ehkafka.positions.mirror_start import (  # noqa: PLC0415
            MirrorRanges,
            MirrorStart,
            mirror_evidence,
        )

        start = MirrorStart(
            settings.on_no_group_offsets,
            group=settings.group,
            emit=self._bus.emit,
            mirror=mirror,
            prove=logs.asker.prove,
        )
        ranges = MirrorRanges(mirror, self._bus.emit)
        read_back = self._read_back = ReadBack(logs.asker, mirror.metadata_returned)

        def on_acknowledged(stored: Mapping[TopicPartition, Position]) -> None:
            # `waited_s` counts from when the commit was sent whose answer this is.
            mirror.acknowledged(stored, time.monotonic() - committer.waited_s())
            read_back.acknowledged(stored)

        def on_epoch_begin(partition: TopicPartition, epoch: int, committed: int | None) -> None:
            mirror.assigned(partition, epoch, committed, is_ours=ranges.is_ours(partition))

        committer.listen(on_acknowledged)
        return MirrorParts(start, partial(mirror_evidence, mirror), ranges, on_epoch_begin, mirror.ended)

    def start(self) -> None:
        """Start the mirror's thread."""
        if self._mirror is not None:
            self._mirror.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the mirror's."""
        return self._mirror is not None and self._mirror.owns(thread)

    def stop(self, *, deadline_s: float, at_once: bool) -> None:
        """Write what is owed by the deadline, within bounds of our own, and end."""
        if self._mirror is not None:
            if self._read_back is not None:
                self._read_back.wait(0.0 if at_once else READ_BACK_S)
            left_s = 0.2 if at_once else max(FLUSH_LEAST_S, deadline_s - self._now_s())
            self._mirror.stop(min(left_s, FLUSH_MOST_S))

    @property
    def state(self) -> MirrorState | None:
        """How far behind the mirror is; None without one."""
        return self._mirror.state() if self._mirror is not None else None

    def problems(self) -> Iterator[str | None]:
        """Yield what is wrong with the mirror for too long."""
        yield self._mirror.problem if self._mirror is not None else None


class ReadBack:
    """Finds out, once for a run, whether the broker returns the metadata of commits.

    No document of Event Hubs states it. `report` is called by the asking thread, with the answer; never, if
    there is none.
    """

    def __init__(self, asker: LogAsker, report: Callable[[bool], object]) -> None:
        self._asker = asker
        self._report = report
        # The poll thread's.
        self._tries_left = READ_BACK_TRIES
        self._question: Question[Commits] | None = None
        # Written by the asking thread, before its question is done.
        self._is_answered = False

    def acknowledged(self, stored: Mapping[TopicPartition, Position]) -> None:
        """Ask for one of these commits, unless that is being done, or is known."""
        if self._is_answered or not self._tries_left or not self.wait(0.0):
            return
        partition = next((p for p, position in stored.items() if position.metadata), None)
        if partition is not None:
            self._tries_left -= 1
            next_offset = stored[partition].next_offset
            self._question = self._asker.read_commits(
                [partition],
                lambda commits: self._take(None if commits is None else commits.get(partition), next_offset),
            )

    def wait(self, timeout_s: float) -> bool:
        """Wait for a question that is under way, at most so long; True where none is."""
        return self._question is None or self._question.done.wait(timeout_s)

    def _take(self, commit: KafkaPartition | None, next_offset: int) -> None:
        # Without metadata only the very commit tells: a later one may be another client's.
        if commit is not None and (commit.metadata or commit.offset == next_offset):
            self._is_answered = True
            self._report(bool(commit.metadata))


def _open_mirror(app: AppOptions, choice: MirrorChoice, bus: EventBus) -> Mirror:
    from ehkafka.checkpoints.layout import Layout, namespace_of  # noqa: PLC0415 - as in `join`
    from ehkafka.checkpoints.mirror.mirror import Mirror  # noqa: PLC0415 - likewise

    layout = Layout(choice.namespace or namespace_of(app.endpoint.name), app.settings.group)
    check_topics(layout, app.topics)
    return Mirror(
        choice.open_store(),
        layout,
        owner=run_name(),
        interval_s=choice.interval_s,
        emit=bus.emit,
    )


def check_topics(layout: Layout, topics: Collection[str]) -> None:
    """Refuse topics that have no name in a store, or share one. Raises `ConfigurationError`."""
    names: dict[str, str] = {}
    for topic in sorted(topics):
        other = names.setdefault(layout.name(topic, 0), topic)
        if other != topic:
            raise ConfigurationError(
                f"The topics {other!r} and {topic!r} differ in case only, and blobs have lower-case names: "
                "the topics' mirrors would overwrite each other. Consume one topic in a separate app."
            )


def run_name() -> str:
    """Return a name that no other run has: host, process, and eight random digits."""
    return f"{host_name()}-{os.getpid()}-{secrets.token_hex(4)}"
