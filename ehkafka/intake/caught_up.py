"""Whether an app has caught up: all records up to the logs' ends have a result, and the commits are in.

Pure; time comes in as an argument; the poll thread's. The broker itself reports each log's end, and a
partition is caught up once its position has reached that. Silence of the broker proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ehkafka.events.partition import way_past

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ehkafka.records import TopicPartition

# How long a settled group has given this member nothing before it is done: a cooperative member's first
# assignment is empty, and the next one follows within moments.
STANDBY_S: Final = 30.0
# A partition that should go on and does not is looked into after so long.
SILENT_S: Final = 3.0
# Where partitions begin and end is asked again after so long at most.
UNKNOWN_S: Final = 30.0


_NO_END: Final = "the broker does not report where its log ends"

# In place of the key of a record that has ended, and waits for its outputs alone.
NO_KEY: Final = object()


class WaitingKey(NamedTuple):
    """The first record of a waiting key, which no worker will take before something happens, and why.

    Or the lowest one whose outputs are not acknowledged: then `key` is `NO_KEY`.
    """

    offset: int
    key: Hashable
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """How far one partition is.

    `begin` and `end` are those of its log when the partition was assigned; `end` is None until the broker
    answers. `received_next` and `watermark` are None while the position is the log's beginning, whatever that
    is. `runs`: a record below the end is queued or running, or waits for its result. `waiting` are waiting
    keys. Not `is_in_log`: no answer has shown yet that the log reaches the position; a recreated topic's may
    not. `is_unread`: the position does not move, and no other client has looked yet. `has_no_tail`: no record
    is left up to the end. `unreadable`: the offset at which reading fails, and why. `unplaced`: why the start
    position is not known.
    """

    partition: TopicPartition
    end: int | None
    begin: int = 0
    received_next: int | None
    watermark: int | None
    committed: int | None
    runs: bool = False
    waiting: Sequence[WaitingKey] = ()
    is_paused: bool = False
    is_in_log: bool = True
    is_unread: bool = False
    has_no_tail: bool = False
    unreadable: tuple[int, str] | None = None
    unplaced: str = ""

    @property
    def next_offset(self) -> int:
        """Up to where everything has an outcome."""
        return self.begin if self.watermark is None else self.watermark

    @property
    def position(self) -> int:
        """Up to where everything was received."""
        return self.begin if self.received_next is None else self.received_next

    @property
    def is_all_received(self) -> bool:
        """Whether all up to the end was received."""
        return self.end is not None and self.position >= self.end


class Blocker(NamedTuple):
    """A waiting record, or (without an offset) a whole partition, that has not reached its end."""

    partition: TopicPartition
    offset: int | None
    key: Hashable
    why: str


class CaughtUp(NamedTuple):
    """All is done; `is_standby`: there was nothing to do for this member."""

    is_standby: bool = False


class Unsettled(NamedTuple):
    """Everything is done except records that have waited for too long."""

    stuck: tuple[Blocker, ...]


@dataclass(slots=True)
class CatchingUp:
    """Takes where the partitions stand, twice a second, and says when the run is over.

    `is_blind` in what it is asked: brokers throttle, or none answers, so that silence proves nothing.
    """

    settle_s: float
    standby_s: float = STANDBY_S
    # Since when a record waits, by partition and offset; since when a partition is as it is.
    _waits_since_s: dict[tuple[TopicPartition, int], float] = field(default_factory=dict)
    _same_since_s: dict[TopicPartition, tuple[tuple[int, int, int | None], float]] = field(
        default_factory=dict
    )
    # Since when the group is settled and has given nothing; since when only commits are missing.
    _standby_since_s: float | None = None
    _uncommitted_since_s: float | None = None

    def judge(
        self, states: Sequence[PartitionState], now_s: float, *, is_settled: bool, is_blind: bool
    ) -> CaughtUp | Unsettled | None:
        """Return how the run ends, None while it goes on. `is_settled`: a member of a settled group."""
        self._note(states, now_s, is_blind=is_blind)
        if not states:
            return self._judge_standby(now_s, is_settled=is_settled)
        self._standby_since_s = None
        left = [state for state in states if not self._is_handled(state)]
        if left:
            self._uncommitted_since_s = None
            return self._judge_left(left, now_s)
        if any(not self._is_committed(state) for state in states):
            # The last commit of the stop says what is wrong, if the broker takes none.
            if self._uncommitted_since_s is None:
                self._uncommitted_since_s = now_s
            if is_blind or now_s - self._uncommitted_since_s <= self.settle_s:
                return None
        return CaughtUp()

    @property
    def wants_commit(self) -> bool:
        """Whether nothing but a commit is missing."""
        return self._uncommitted_since_s is not None

    def left_records(self, states: Iterable[PartitionState]) -> int:
        """Return how many offsets are left up to the ends, as far as these are known."""
        return sum(
            max(0, state.end - state.next_offset)
            for state in states
            if state.end is not None and not self._is_handled(state)
        )

    def _note(self, states: Sequence[PartitionState], now_s: float, *, is_blind: bool) -> None:
        """Take down since when things are as they are."""
        # From the first wait on, whatever attempts there are in between: a record that fails for ever must
        # not keep the run for ever.
        positions = {state.partition: state.next_offset for state in states}
        known = {
            (partition, offset): since_s
            for (partition, offset), since_s in self._waits_since_s.items()
            if offset >= positions.get(partition, offset + 1)
        }
        waits = ((state.partition, one.offset) for state in states for one in state.waiting)
        self._waits_since_s = dict.fromkeys(waits, now_s) | known
        same: dict[TopicPartition, tuple[tuple[int, int, int | None], float]] = {}
        for state in states:
            seen = (state.position, state.next_offset, state.committed)
            before = self._same_since_s.get(state.partition)
            is_same = before is not None and before[0] == seen and not (is_blind or state.runs)
            same[state.partition] = before if is_same and before is not None else (seen, now_s)
        self._same_since_s = same

    def _judge_standby(self, now_s: float, *, is_settled: bool) -> CaughtUp | None:
        if not is_settled:
            self._standby_since_s = None
            return None
        since_s = self._standby_since_s = now_s if self._standby_since_s is None else self._standby_since_s
        return CaughtUp(is_standby=True) if now_s - since_s >= self.standby_s else None

    def _judge_left(self, left: Sequence[PartitionState], now_s: float) -> Unsettled | None:
        stuck: list[Blocker] = []
        for state in left:
            found = list(self._stuck_in(state, now_s))
            if not found:
                return None  # it goes on
            stuck += found
        return Unsettled(tuple(stuck))

    def _stuck_in(self, state: PartitionState, now_s: float) -> Iterator[Blocker]:
        """Yield what has kept a partition from its end for too long; nothing while it may go on."""
        if state.runs:
            return
        same_s = now_s - self._same_since_s[state.partition][1]
        if state.end is None:
            if same_s > max(self.settle_s, UNKNOWN_S):
                yield Blocker(state.partition, None, None, state.unplaced or _NO_END)
        elif state.waiting and (state.is_all_received or state.is_paused):
            since = [self._waits_since_s[state.partition, one.offset] for one in state.waiting]
            if now_s - max(since) > self.settle_s:
                yield from (Blocker(state.partition, *one) for one in state.waiting)
        elif same_s > max(self.settle_s, SILENT_S) and not state.is_unread:
            yield _silent(state)

    @staticmethod
    def _is_handled(state: PartitionState) -> bool:
        if state.end is None or not state.is_in_log:
            return False
        if state.next_offset >= state.end:
            return True
        return state.has_no_tail and state.next_offset == state.position

    @staticmethod
    def _is_committed(state: PartitionState) -> bool:
        if state.watermark is None or state.end is None:
            return True  # nothing was received, so there is no position to commit
        return state.committed is not None and state.committed >= min(state.end, state.watermark)


def _silent(state: PartitionState) -> Blocker:
    """Say why nothing of a partition arrives."""
    if state.unreadable is not None:
        offset, reason = state.unreadable
        why = f"its records cannot be read: {reason}; to skip them: {way_past(state.partition, offset)}"
        return Blocker(state.partition, offset, NO_KEY, why)
    why = f"no record from offset {state.position} on arrives, although the log ends at {state.end}"
    if state.is_paused:
        why = "the partition is paused"
    elif not state.is_in_log:
        why = f"its position {state.position} is beyond the end of its log"
    return Blocker(state.partition, None, None, why)
