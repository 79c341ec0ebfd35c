"""A batch: records of several lanes that one worker process runs, and what has become of each.

Called by the thread that owns the child, which holds the lanes from `begin` until they are handed in. Records
have numbers, in the order in which the child runs them: the lanes one after another, each in its own order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ehkafka.lanes.user_keys import users_key
from ehkafka.workers.processes.message import lane_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.events.history import History
    from ehkafka.lanes.lane import Lane
    from ehkafka.outputs.making import Made
    from ehkafka.records import Message
    from ehkafka.workers.processes.message import LaneFields
    from ehkafka.workers.processes.posting import Posting
    from ehkafka.workers.protocol import Failures


class _Part:
    """A lane's share of a batch."""

    __slots__ = ("end", "is_open", "lane")

    def __init__(self, lane: Lane, end: int) -> None:
        self.lane = lane
        # The number behind its last record.
        self.end = end
        # False once it is handed in: no record of it is this batch's business any more.
        self.is_open = True


class Batch:
    """What a child was given. Each lane is handed in as soon as nothing of it can run here any more."""

    def __init__(
        self,
        *,
        on_failure: Failures,
        hand_in: Callable[[Lane], None],
        history: History | None = None,
        posting: Posting | None = None,
    ) -> None:
        self.records = 0
        self.size_bytes = 0
        # The records before this number have ended, or were handed back.
        self.settled = 0
        self._on_failure = on_failure
        self._hand_in = hand_in
        self._history = history
        # None: its handler sends nothing.
        self._posting = posting
        self._fields: list[LaneFields] = []
        self._parts: list[_Part] = []
        # The part that `settled` is in.
        self._now = 0
        self._reported_started = -1

    def add(self, lane: Lane, lent: Sequence[Message], size_bytes: int) -> None:
        """Take records of a lane that were lent."""
        self.records += len(lent)
        self.size_bytes += size_bytes
        self._fields.append(lane_fields(lane, lent))
        self._parts.append(_Part(lane, self.records))

    def refuse(self, lane: Lane, error: BaseException) -> None:
        """Let a lane's head fail without running: its key could not be computed."""
        self._report("started", lane)
        self._report("finished", lane, "failed")
        lane.decision = self._on_failure(lane, error)
        self._hand_in(lane)

    def take_fields(self) -> tuple[LaneFields, ...]:
        """Return what the child needs, once; the copies are not kept."""
        fields, self._fields = self._fields, []
        return tuple(fields)

    def is_cut(self) -> bool:
        """Tell whether a partition that it has records of is being drained, or was taken away."""
        return any(part.is_open and part.lane.assignment.halted for part in self._parts[self._now :])

    def finish(self, end: int) -> None:
        """Give the records before this number that had no end yet the outcome *finished*: they sent nothing.

        Of what sends, and of what fails, the end is known before the next record starts.
        """
        while self.settled < end:
            self._end_one(())

    def end_sending(self, number: int, made: Sequence[Made]) -> None:
        """Take the end of a record that sends something."""
        self.finish(number)
        self._end_one(made)

    def fail(self, number: int, error: BaseException, made: Sequence[Made] = ()) -> None:
        """Take a record's failure; what came before it is finished, what follows in its lane did not run.

        `made` is what it had sent before.
        """
        self.finish(number)
        part = self._part()
        if part.is_open:
            lane = part.lane
            self._report_started(lane)
            if self._posting is not None:
                self._posting.failed(lane, made)
            self._report("finished", lane, "failed")
            self._give_up(part, error)
        self.settled = number + 1

    def keep_running(self, started: int) -> None:
        """Hand everything back but the last one of so many started records, which still runs."""
        self.finish(started - 1)
        # It may have ended: its word of that was read after the claims were taken.
        part = self._part() if self.runs(started) else None
        if part is not None and part.is_open:
            self._report_started(part.lane)
            # The child will find no claim on its followers: only the head runs.
            part.lane.running = 1
            part.end = started
        self._hand_back(beyond=part)
        self.records = started

    def die(self, started: int, error: BaseException) -> None:
        """Take the child's death with so many records started: the last one is charged, none behind it."""
        if self.runs(started):
            self.fail(started - 1, error)
        self._hand_back()

    def end(self, started: int) -> None:
        """Take the end of a batch of which so many records were started."""
        self.finish(started)
        self._hand_back()

    def runs(self, started: int) -> bool:
        """Tell whether the last of so many started records runs on, as far as the child has reported."""
        return self.settled < started

    def _end_one(self, made: Sequence[Made]) -> None:
        part = self._part()
        if part.is_open:
            self._report_started(part.lane)
            try:
                is_awaited = self._end(part.lane, made)
            except Exception as error:  # its outputs are not taken, or were refused at once
                self._give_up(part, error)
            else:
                if is_awaited:
                    self._close(part)
                else:
                    self._move_on(part)
        self.settled += 1

    def _end(self, lane: Lane, made: Sequence[Made]) -> bool:
        """End a lane's head; True where its outputs will do that."""
        is_left = False
        if self._posting is not None:
            try:
                is_left = self._posting.ended(lane, made)
            except Exception:
                self._report("finished", lane, "failed")
                raise
        if not is_left:
            self._report("finished", lane, "finished")
            return False
        assert self._posting is not None
        return self._posting.awaits(lane)

    def _give_up(self, part: _Part, error: BaseException) -> None:
        part.lane.decision = self._on_failure(part.lane, error)
        self._close(part)

    def _part(self) -> _Part:
        while self._parts[self._now].end <= self.settled:
            self._now += 1
        return self._parts[self._now]

    def _move_on(self, part: _Part) -> None:
        lane = part.lane
        lane.advance()
        if self.settled + 1 == part.end:
            self._close(part)
        else:
            lane.running -= 1  # after the head has moved: see `Lane.cut`

    def _hand_back(self, beyond: _Part | None = None) -> None:
        for part in self._parts[self._now :]:
            if part is not beyond and part.is_open:
                self._close(part)

    def _close(self, part: _Part) -> None:
        part.is_open = False
        self._hand_in(part.lane)

    def _report_started(self, lane: Lane) -> None:
        if self._reported_started < self.settled:
            self._reported_started = self.settled
            self._report("started", lane)

    def _report(self, what: Literal["started", "finished"], lane: Lane, *outcome: str) -> None:
        if self._history is not None:
            assert lane.head is not None
            assignment, attempt = lane.assignment, lane.attempts + 1
            place = (assignment.partition, assignment.epoch, lane.head.offset(), users_key(lane.key), attempt)
            getattr(self._history, what)(*place, *outcome)


class BatchSize:
    """How many records a child's next batch may hold. Pure: measured times come in as arguments."""

    def __init__(self, records_max: int, batch_s: float) -> None:
        self.records = 1
        self._records_max = records_max
        self._batch_s = batch_s
        self._cost_s = 0.0

    def note(self, records: int, elapsed_s: float) -> None:
        """Learn from a batch: at once that records are dear, slowly that they are cheap, doubling at most."""
        if not records:
            return
        cost_s = elapsed_s / records
        known_s = self._cost_s
        self._cost_s = cost_s if cost_s > known_s else known_s + (cost_s - known_s) * 0.3
        fitting = int(self._batch_s / max(self._cost_s, 1e-9))
        self.records = max(1, min(self._records_max, fitting, self.records * 2))
