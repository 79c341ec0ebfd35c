"""What happens around the program's rebalance callbacks.

On the polling thread, inside `poll`, `consume` or `close`. Before a partition leaves, what was asked to be
committed of it is sent; of a lost one it is given up. Never commits what was not asked for.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Consumer as KafkaConsumer
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.positions.log_bounds import commits_of
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.consumer.internals import Internals

    Callback = Callable[[Any, list[KafkaPartition]], Any]

_assign: Any = KafkaConsumer.assign
_incremental_assign: Any = KafkaConsumer.incremental_assign
# How long a mirror waits for them, which decides where a partition without a commit begins.
MIRRORED_S = 10.0
# How long a guard waits for the group's commits, which librdkafka needs next as well. Without a guard nothing
# waits: a program that commits within its first moments may have overwritten the old commit by then.
COMMITTED_S = 2.0


class Rebalances:
    """Follows the assignment of one consumer."""

    def __init__(self, internals: Internals, ask_auto: Callable[[Sequence[TopicPartition]], None]) -> None:
        self._internals = internals
        self._ask_auto = ask_auto
        self._assigned: set[TopicPartition] = set()
        # While a callback runs: whatever it assigns or unassigns, this room follows the rebalance.
        self._is_busy = False
        # Whether the program has assigned something itself in its callback.
        self._did_assign = False

    def callbacks(self, given: dict[str, Callback]) -> dict[str, Callback]:
        """Return what librdkafka is to call instead of the program's callbacks."""
        on_assign, on_revoke = given.get("on_assign"), given.get("on_revoke")
        on_lost = given.get("on_lost", on_revoke)

        def assigned(consumer: object, partitions: list[KafkaPartition]) -> None:
            self._assign(consumer, partitions, on_assign)

        def revoked(consumer: object, partitions: list[KafkaPartition]) -> None:
            self._revoke(consumer, partitions, on_revoke)

        def lost(consumer: object, partitions: list[KafkaPartition]) -> None:
            self._lose(consumer, partitions, on_lost)

        guard = self._internals.callbacks.guard
        return {"on_assign": guard(assigned), "on_revoke": guard(revoked), "on_lost": guard(lost)}

    def assigned(self, partitions: Iterable[KafkaPartition], *, anew: bool) -> None:
        """The program has assigned these itself; `anew`: instead of all others."""
        self._did_assign = True
        places = list(partitions)
        names = _names(places)
        self._hold(names, anew=anew)
        if not self._is_busy:
            if anew:
                self._end(list(self._assigned))
            self._begin(names)
        self._internals.log_guard.placed(places)

    def unassigned(self, partitions: Iterable[KafkaPartition] | None) -> None:
        """The program has unassigned these itself; None: all."""
        self._did_assign = True
        names = list(self._assigned) if partitions is None else _names(partitions)
        self._let_go(names, everything=partitions is None)
        if not self._is_busy:
            self._end(names)

    def end_all(self) -> None:
        """The consumer has gone."""
        self._let_go((), everything=True)
        self._end(list(self._assigned))

    def _assign(self, consumer: object, partitions: list[KafkaPartition], callback: Callback | None) -> None:
        names = _names(partitions)
        assign = _incremental_assign if self._internals.is_cooperative else _assign
        try:
            commits = self._commits(names)
            begin_at, known = self._internals.mirror.begin_at(partitions, commits)
        except BaseException:
            # Nothing is read: where librdkafka would begin could skip what was never handled.
            assign(consumer, [])
            raise
        # What the callback does to its list counts only if it assigns that.
        places = [KafkaPartition(*name, place.offset) for name, place in zip(names, begin_at, strict=True)]
        self._begin(names)
        self._internals.log_guard.read(commits, known)
        try:
            self._call(consumer, begin_at, callback)
        finally:
            if not self._did_assign:
                if any(place.offset >= 0 for place in places):
                    assign(consumer, places)
                self._hold(names, anew=not self._internals.is_cooperative)

    def _revoke(self, consumer: object, partitions: list[KafkaPartition], callback: Callback | None) -> None:
        names = _names(partitions)
        self._ask_auto(names)
        try:
            self._call(consumer, partitions, callback)
        finally:
            self._internals.commits.flush()
            self._leave(names)

    def _lose(self, consumer: object, partitions: list[KafkaPartition], callback: Callback | None) -> None:
        names, commits = _names(partitions), self._internals.commits
        commits.drop(names)
        try:
            self._call(consumer, partitions, callback)
        finally:
            # What the callback asked for would go out as a member of the next generation.
            commits.drop(names)
            self._leave(names)

    def _call(self, consumer: object, partitions: list[KafkaPartition], callback: Callback | None) -> None:
        self._is_busy, self._did_assign = True, False
        try:
            if callback is not None:
                callback(consumer, partitions)
        finally:
            self._is_busy = False

    def _leave(self, names: list[TopicPartition]) -> None:
        if not self._did_assign:  # confluent-kafka does it
            self._let_go(names, everything=not self._internals.is_cooperative)
        self._end(names)

    def _hold(self, names: Iterable[TopicPartition], *, anew: bool) -> None:
        internals = self._internals
        internals.held = frozenset(names) if anew else internals.held.union(names)

    def _let_go(self, names: Iterable[TopicPartition], *, everything: bool) -> None:
        internals = self._internals
        internals.held = frozenset() if everything else internals.held.difference(names)

    def _begin(self, names: list[TopicPartition]) -> None:
        self._forget(names)
        self._assigned.update(names)
        self._internals.returned.assigned(self._assigned)
        self._internals.mirror.assigned(names)
        if self._internals.log_guard.is_on:
            self._internals.log_guard.begun(names)
            self._internals.next_check_s = 0.0
        if self._internals.passed is not None:
            self._internals.passed.begin(names)

    def _end(self, names: list[TopicPartition]) -> None:
        self._forget(names)
        self._assigned.difference_update(names)
        self._internals.returned.assigned(self._assigned)
        self._internals.mirror.ended(names)
        self._internals.log_guard.ended(names)
        if self._internals.anew is not None:
            self._internals.anew.drop(names)

    def begin_anew(self, partition: TopicPartition) -> None:
        """Its log is another one, and it was moved there: what is of the old one counts no more."""
        internals, names = self._internals, [partition]
        internals.commits.drop(names)
        self._forget(names)
        internals.mirror.ended(names)
        internals.mirror.assigned(names)
        internals.log_guard.begun_anew(partition)
        if internals.passed is not None:
            internals.passed.begin(names)

    def _commits(self, names: list[TopicPartition]) -> dict[TopicPartition, KafkaPartition]:
        """Read the group's commits before another one of ours takes their place, where they are needed."""
        internals = self._internals
        if internals.mirror.is_on:
            return commits_of(internals.bare, names, MIRRORED_S)
        if internals.marks is None or not internals.log_guard.is_on:
            return {}
        with suppress(KafkaException):  # the asking thread retries
            return commits_of(internals.bare, names, COMMITTED_S)
        return {}

    def _forget(self, names: list[TopicPartition]) -> None:
        internals = self._internals
        internals.returned.forget(names)
        internals.stored.forget(names)
        if internals.marks is not None:
            internals.marks.ended(names)
        internals.commits.forget(names)


def _names(partitions: Iterable[KafkaPartition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in partitions]
