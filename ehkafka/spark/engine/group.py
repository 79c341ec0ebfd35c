"""The consumer group's side of a query: where its partitions begin, and the commits of finished batches.

On the driver. `open`, `begin` and `claim` in the thread that starts the query; from `serve` on the consumer
belongs to the thread that follows it. Nothing here joins the group: Kafka takes commits from outside only
while a group has no member, which is also how a live consumer is noticed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException

from ehkafka.assembly import Assembly
from ehkafka.checks.target import Target
from ehkafka.endpoint.client import check_client_version, describe_error
from ehkafka.endpoint.credential_watch import CredentialWatch
from ehkafka.errors import EndpointError, GroupInUseError
from ehkafka.intake.context import PartitionHooks
from ehkafka.intake.log_bounds import log_bounds
from ehkafka.mirroring import Mirroring
from ehkafka.offsets.group import LIVE
from ehkafka.offsets.members import members_of
from ehkafka.progress.ledger import Position
from ehkafka.progress.ranges import MOVED
from ehkafka.reach import Reach
from ehkafka.records import TopicPartition
from ehkafka.recovery.policy import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.spark.engine.app_parts import AppParts
    from ehkafka.spark.engine.results import LastRecord
    from ehkafka.telemetry.bus import EventBus

# A query is one epoch of all its partitions.
_EPOCH = 1
MEMBERS_S = 5.0
AGAIN_S = 0.2
SLOW_LOOK_S = 0.5
_NAMED = 3
_NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,  # noqa: SLF001 - librdkafka's own codes start with an underscore
}


class Group:
    """One group while Spark handles its records."""

    def __init__(self, parts: AppParts, bus: EventBus, fail: Callable[[EhkafkaError], None]) -> None:
        """Raise `ConfigurationError` for what cannot work; nothing is opened."""
        self._parts = parts
        self._bus = bus
        self.name = parts.settings.group
        assembly = Assembly(
            endpoint=parts.endpoint,
            settings=parts.settings,
            bus=bus,
            fail=fail,
            worker_died=lambda _error: None,
            user_code_failed=lambda _where, _error: None,
            leave_now=lambda: False,
            middleware=(),
            on_error=None,
            worker_set_up=None,
            worker_tear_down=None,
            history=None,
        )
        assembly.letters(parts.specs)  # refuses letters that go in a circle
        self._context = assembly.context(parts.specs, PartitionHooks())
        self._mirroring = Mirroring(parts.mirror, parts.endpoint, parts.settings, parts.topics, bus)
        self._mirroring.attach(self._context)
        self._credential = CredentialWatch(parts.endpoint.credential, bus.emit)
        self._reach = Reach(
            parts.endpoint, parts.settings, topics=set(parts.topics), letters=_letters(parts), emit=bus.emit
        )
        self._consumer: Consumer | None = None
        self._is_open = False
        self._next_slow_look_s = 0.0
        # What the group had committed at `begin`, of partitions with a commit.
        self.committed: dict[TopicPartition, int] = {}
        # Those of them that `ehkafka offsets reset` and its like have moved.
        self.reset: set[TopicPartition] = set()
        # What the last finished batch reached, by partition. The following thread's, from `serve` on.
        self._positions: dict[TopicPartition, Position] = {}

    def open(self) -> None:
        """Reach the broker; all topics are there, those of dead letters too. Raises what is wrong."""
        check_client_version()
        properties = self._reach.properties()
        # Nobody here is a member, so no static one either.
        properties.pop("group.instance.id", None)
        self._consumer = self._reach.open(
            properties,
            hear=lambda _consumer, _error: self._is_open,
            on_commit=self._context.committer.on_commit,
            throttle_cb=self._context.throttle.heard,
        )
        self._credential.start(self._consumer)
        self._mirroring.start()
        self._is_open = True

    def begin(self) -> dict[TopicPartition, int]:
        """Return where each partition begins: at the group's commit, else the mirror's, else at `start`."""
        begins = self._context.positions.find(self._opened, self._partitions())
        known = {one.partition: one.committed for one in begins if one.committed is not None}
        self.committed = {partition: commit.offset for partition, commit in known.items()}
        self.reset = {partition for partition, commit in known.items() if commit.metadata == MOVED}
        symbolic = [one.partition for one in begins if one.offset == OFFSET_BEGINNING]
        logs = log_bounds(self._opened, symbolic, self._parts.settings.connect_s) if symbolic else {}
        return {
            one.partition: logs[one.partition].start if one.partition in logs else one.offset
            for one in begins
        }

    def refuse_members(self) -> None:
        """Raise `GroupInUseError` where the broker tells of members; `claim` is the proof."""
        target = Target(endpoint=self._parts.endpoint, group=self.name)
        timeout_s = min(MEMBERS_S, self._parts.settings.connect_s)
        members = members_of(target, self.name, self._parts.topics[0], timeout_s)
        if members:
            named = ", ".join(f"{member.client} on {member.host}" for member in members[:_NAMED])
            more = f" and {len(members) - _NAMED} more" if len(members) > _NAMED else ""
            raise self._in_use(f"it has {len(members)} member(s), {named}{more}")

    def claim(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit where the query begins. Raises `GroupInUseError` while a consumer holds the group."""
        for partition, offset in positions.items():
            self._context.ledger.assigned(partition, _EPOCH, None)
            self._context.on_epoch_begin(partition, _EPOCH, offset)
            self._positions[partition] = Position(_EPOCH, offset)
        ends_s = time.monotonic() + self._parts.settings.connect_s
        while (refusal := self._refusal()) is not None:
            if refusal.code() in LIVE:
                raise self._in_use(f"the broker refuses a commit from outside ({refusal.name()})")
            if refusal.code() not in _NOT_YET or time.monotonic() >= ends_s:
                raise EndpointError(
                    f"Where the group {self.name!r} begins could not be committed: {describe_error(refusal)}"
                )
            time.sleep(AGAIN_S)

    def note(self, ends: Mapping[TopicPartition, int], lasts: Mapping[TopicPartition, LastRecord]) -> None:
        """Take where a finished batch ended; it is committed at the next tick."""
        for partition, end in ends.items():
            before = self._positions.get(partition)
            if before is None:  # the topic has grown
                self._context.ledger.assigned(partition, _EPOCH, None)
                self._context.on_epoch_begin(partition, _EPOCH, None)
            elif end <= before.next_offset:
                continue
            last = lasts.get(partition)
            anchor = before.anchor if before is not None else None
            if last is not None and last.timestamp_ms is not None:
                anchor = (last.offset, last.timestamp_ms)
            # A commit carries the epoch of the very record before it.
            is_before = last is not None and last.offset == end - 1
            epoch = last.leader_epoch if last is not None and is_before else None
            self._positions[partition] = Position(_EPOCH, end, epoch, anchor=anchor)

    def serve(self, timeout_s: float) -> None:
        """Let the client's callbacks through, and commit what is due."""
        self._opened.consume(1, timeout_s)
        now_s = time.monotonic()
        ledger = self._context.ledger
        if ledger.due(now_s, 0):
            self._context.committer.send(self._opened, self._positions, 0)
        if now_s >= self._next_slow_look_s:
            self._next_slow_look_s = now_s + SLOW_LOOK_S
            self._credential.apply()

    def lost(self) -> GroupInUseError | None:
        """Return the error of a group that somebody else holds by now, None while it is ours alone."""
        committer = self._context.committer
        if committer.trouble is None or committer.mends_itself:
            return None
        return self._in_use(f"the broker refuses our commits ({committer.trouble})")

    def finish(self, timeout_s: float) -> list[TopicPartition]:
        """Commit what the last batch reached; return the partitions whose commit is not known to be made."""
        ends_s = time.monotonic() + timeout_s
        ledger, committer = self._context.ledger, self._context.committer
        while ledger.dirty(self._positions) and time.monotonic() < ends_s:
            if ledger.in_flight is None:
                committer.commit_within(self._opened, self._positions, max(0.1, ends_s - time.monotonic()))
                if committer.trouble is not None and not committer.mends_itself:
                    break
            self._opened.consume(1, AGAIN_S)
        return sorted(ledger.dirty(self._positions))

    def close(self, *, deadline_s: float) -> None:
        """Let the mirror write what it owes, and close the client."""
        self._mirroring.stop(deadline_s=deadline_s, at_once=False)
        self._credential.stop()
        if self._consumer is not None:
            self._consumer.close()

    @property
    def trouble(self) -> str | None:
        """What the last commit failed of; None since one was acknowledged."""
        return self._context.committer.trouble

    @property
    def _opened(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer

    def _partitions(self) -> list[TopicPartition]:
        try:
            known = self._opened.list_topics(timeout=self._parts.settings.connect_s).topics
        except KafkaException as error:
            raise EndpointError(f"The broker cannot be reached: {describe_error(error.args[0])}") from error
        return [
            TopicPartition(topic, number)
            for topic in self._parts.topics
            for number in sorted(known[topic].partitions)
        ]

    def _refusal(self) -> KafkaError | None:
        error, answers = self._context.committer.commit_once(self._opened, self._positions)
        told = [error, *(answer.error for answer in answers)]
        return next((one for one in told if one is not None), None)

    def _in_use(self, why: str) -> GroupInUseError:
        return GroupInUseError(
            f"The group {self.name!r} on {self._parts.endpoint.name} is in use: {why}. Two at a time would "
            "handle every record twice. Stop its consumers, wait until their session has ended, and start "
            "again."
        )


def _letters(parts: AppParts) -> set[str]:
    policies: Iterable[Any] = (spec.on_failure for spec in parts.specs)
    return {one.to for one in policies if isinstance(one, DeadLetter) and isinstance(one.to, str)}
