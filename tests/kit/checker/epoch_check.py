"""Checks one epoch of one partition in one process: order per key, and what is unfinished.

Pure and single-threaded; called by `ProcessCheck` for every record, so `started` and `finished` are the
checker's hot path. It never looks at other epochs: `PartitionCheck` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.checker.offset_set import OffsetSet
from tests.kit.checker.verdict import Measure

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from tests.kit.checker.partition_check import PartitionCheck

# A lane's last offset is forgotten, once nothing below it is unfinished, when this many are known.
_LANES_MIN = 1024
_FAILED = "failed"
_FINISHED = "finished"
_DEAD_LETTERED = "dead-lettered"


class EpochCheck:
    """What is known of one epoch. Memory: its unfinished records, and the keys started since the oldest."""

    __slots__ = (
        "_lanes",
        "_lanes_max",
        "_tangled",
        "closed",
        "dead",
        "last_received",
        "null_key_ordered",
        "number",
        "partition",
        "pid",
        "position",
        "received_offsets",
        "run",
        "settled_exposure",
        "unfinished",
    )

    def __init__(
        self,
        partition: PartitionCheck,
        *,
        number: int,
        run: str,
        pid: int,
        position: str = "",
        null_key_ordered: bool = False,
    ) -> None:
        self.partition = partition
        self.number = number
        self.run = run
        self.pid = pid
        self.position = position
        self.null_key_ordered = null_key_ordered
        self.closed = False
        # The process is gone: what it had in flight runs no more.
        self.dead = False
        self.settled_exposure = False
        self.received_offsets = OffsetSet()
        self.last_received = -1
        # Offset → 0 not started, n > 0 attempt n runs, -n attempt n failed and the next is to come.
        # Insertion order is offset order, but for a rewind.
        self.unfinished: dict[int, int] = {}
        # Key → highest offset started. Forgotten only when no received record below it is unfinished:
        # then nothing can be overtaken any more.
        self._lanes: dict[Hashable, int] = {}
        self._lanes_max = _LANES_MIN
        # Key → further offsets that are started and unsettled. Only after a violation.
        self._tangled: dict[Hashable, set[int]] = {}

    def received(self, offsets: Sequence[int]) -> None:
        """Note records as unfinished. Offsets not above the last ones are a rewind: they begin anew."""
        if not offsets:
            return
        if offsets[0] <= self.last_received:
            self._rewind(offsets)
        self.unfinished.update(dict.fromkeys(offsets, 0))
        self.received_offsets.update(offsets)
        self.last_received = max(self.last_received, offsets[-1])

    def jumped(self, next_offset: int) -> None:
        """Let commits pass what the log does not hold; whether it was owed an outcome shows at the end."""
        self.last_received = max(self.last_received, next_offset - 1)

    def started(self, offset: int, key: Hashable, attempt: int) -> None:
        """Judge the beginning of an attempt."""
        unfinished = self.unfinished
        before = unfinished.get(offset)
        unfinished[offset] = attempt
        if before != 0 or self.closed:
            self._judge_unusual_start(offset, key, attempt, before)
        if key is not None or self.null_key_ordered:
            lanes = self._lanes
            head = lanes.get(key)
            if head is None:
                lanes[key] = offset
                if len(lanes) > self._lanes_max:
                    self._forget_idle_lanes()
            elif head != offset or self._tangled:
                if head > offset or self._tangled or unfinished.get(head):
                    self._judge_order(offset, key, before, head)
                else:
                    lanes[key] = offset
            partition = self.partition
            if len(partition.live) > 1:
                partition.judge_overlap(self, offset, key)

    def finished(self, offset: int, key: Hashable, attempt: int, outcome: str) -> None:
        """Judge the end of an attempt, or an outcome without one."""
        unfinished = self.unfinished
        state = unfinished.get(offset)
        if state != attempt and self._is_out_of_place(offset, key, state, outcome):
            return
        if outcome == _FAILED:
            unfinished[offset] = -attempt
            return
        unfinished.pop(offset, None)
        partition = self.partition
        if not partition.done.add(offset):
            partition.duplicated(self, offset, key, again=state is None)

    def holds(self, key: Hashable, *, running: bool) -> bool:
        """Tell whether a record of this key is started and unsettled, or (`running`) in an attempt."""
        head = self._lanes.get(key)
        if head is None or self.dead:
            return False
        states = [self.unfinished.get(offset, 0) for offset in (head, *self._tangled.get(key, ()))]
        return any(state > 0 for state in states) if running else any(states)

    def in_flight(self) -> int:
        """Return how many records are in an attempt."""
        return sum(state > 0 for state in self.unfinished.values())

    def exposure(self, committed: int) -> int:
        """Return how many records, in flight or finished, `committed` does not cover: they may repeat."""
        not_begun = sum(state <= 0 and offset >= committed for offset, state in self.unfinished.items())
        return self.received_offsets.count_from(committed) - not_begun

    def oldest_unfinished(self) -> int | None:
        """Return the lowest received offset without an outcome."""
        return min(self.unfinished, default=None)

    def where(self, offset: int | None = None, key: Hashable = None) -> str:
        """Return the place of a finding in words."""
        at = "" if offset is None else f"@{offset} key {key!r}"
        return f"{self.partition.name}{at} (epoch {self.number}, pid {self.pid})"

    def _rewind(self, offsets: Sequence[int]) -> None:
        again = sum(offset in self.received_offsets for offset in offsets)
        self.partition.duplicates_bound += again
        # Records may start again that a later one of their key preceded the first time.
        self._lanes = {key: head for key, head in self._lanes.items() if self.unfinished.get(head)}

    def _judge_unusual_start(self, offset: int, key: Hashable, attempt: int, before: int | None) -> None:
        findings, where = self.partition.findings, self.where(offset, key)
        if before is None and not self.closed:
            known = offset in self.received_offsets
            why = "after its outcome" if known else "without being received"
            findings.add(Measure.BREACH, f"{where}: attempt {attempt} started {why}")
        elif before is not None and before > 0:
            text = f"{where}: attempt {attempt} started while attempt {before} was running"
            findings.add(Measure.ORDER, text)
        if before is None:
            self.received_offsets.add(offset)
        if self.closed:
            # Before the account is settled, the exposure will count this record as in flight.
            self.partition.duplicates_bound += self.settled_exposure
            self.partition.revive(self)
            findings.add(Measure.LATE, f"{where}: attempt {attempt} started after the end of its epoch")

    def _judge_order(self, offset: int, key: Hashable, before: int | None, head: int) -> None:
        unfinished, where = self.unfinished, self.where(offset, key)
        members = {head, *self._tangled.get(key, ())} - {offset}
        active = {member for member in members if unfinished.get(member)}
        running = [member for member in active if unfinished[member] > 0]
        text = None
        if before is not None and before > 0:
            pass  # counted already: it overlaps with itself
        elif running:
            text = f"{where} started while offset {min(running)} of its key was running"
        elif active:
            text = f"{where} started before offset {min(active)} of its key, which had failed, was retried"
        elif head > offset and before is not None:
            text = f"{where} started after offset {head} of its key"
        if text is not None:
            self.partition.findings.add(Measure.ORDER, text)
        self._lanes[key] = last = max(head, offset)
        tangled = (active | {offset}) - {last}
        if tangled:
            self._tangled[key] = tangled
        else:
            self._tangled.pop(key, None)

    def _is_out_of_place(self, offset: int, key: Hashable, state: int | None, outcome: str) -> bool:
        """Count an end that no running attempt explains; tell whether nothing else is to be done."""
        findings, where = self.partition.findings, self.where(offset, key)
        if state is None and self.closed:
            findings.add(
                Measure.LATE, f"{where}: {outcome} after the end of its epoch, without a start in it"
            )
        elif state is None:
            findings.add(Measure.BREACH, f"{where}: {outcome}, but it was not unfinished")
        elif state > 0 or outcome in {_FINISHED, _FAILED}:
            findings.add(Measure.BREACH, f"{where}: {outcome} in an attempt that was not running")
        if self.settled_exposure and not state and outcome == _DEAD_LETTERED:
            # Its letter was on its way as the epoch ended, which the account could not know.
            self.partition.duplicates_bound += offset in self.partition.received
        # A record skipped for its age, or dead-lettered for its place in a lane, was never started.
        return state is None and outcome == _FAILED

    def _forget_idle_lanes(self) -> None:
        # Whatever is started and unsettled lies at the floor or above it, and so does its lane's head.
        floor = min(self.unfinished)
        self._lanes = {key: head for key, head in self._lanes.items() if head >= floor}
        self._lanes_max = max(_LANES_MIN, 2 * len(self._lanes))
