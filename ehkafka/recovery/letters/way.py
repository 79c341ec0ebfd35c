"""A handler's way to its dead letters: each letter from its posting to its record's result.

Which have waited too long is asked by the thread that watches the run: the one that writes them may hang.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from ehkafka.events import DeadLetterFailed, RecordDeadLettered
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.order import describe_key
from ehkafka.outputs.output import Source
from ehkafka.records import Outcome
from ehkafka.wording import ended

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.lanes.decision import Answer
    from ehkafka.lanes.inbox import Entry
    from ehkafka.recovery.letters.letter import Letter

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
LATE_S: Final = 10.0
"""How long a letter may wait for its answer before that is reported."""


class Posted(Source):
    """A record whose dead letter is on its way."""

    way: LetterWay
    letter: Letter
    answer: Callable[[Answer], None]
    since_s: float
    is_late = False
    # How often the letter could not be written.
    tries = 0

    def acknowledged(self) -> None:
        """Give the record the result *dead-lettered*, unless it has one."""
        if self.way.take_out(self):
            letter, way = self.letter, self.way
            way.emit(RecordDeadLettered(letter.origin, letter.offset, describe_key(self[KEY]), way.to))
            self.answer(Outcome.DEAD_LETTERED)

    def gone(self) -> None:
        """Decide nothing: another member has the record now."""
        self.hold(HoldHead("its partition was taken away"))

    def hold(self, head: HoldHead) -> None:
        """Let the record wait for the next start, unless it has a result."""
        if self.way.take_out(self):
            self.answer(head)

    def report(self, error: str, retry_s: float | None, **stack: Any) -> None:
        """Tell that the letter could not be written."""
        letter, way = self.letter, self.way
        what = (letter.origin, letter.offset, describe_key(self[KEY]), way.to, error, retry_s)
        way.emit(DeadLetterFailed(*what, **stack))

    def retry_s(self) -> float:
        """Count a try that failed, and return when the next one is due: later each time."""
        self.tries += 1
        doubled: int = 1 << min(self.tries - 1, 10)
        return min(RETRY_MAX_S, RETRY_FIRST_S * doubled)


class LetterWay(ABC):
    """`post` and `problem` from any thread; `check` by the one that watches the run."""

    def __init__(self, to: str, *, emit: Callable[[Event], None], clock: Callable[[], float]) -> None:
        """`to` is where the letters go, for messages."""
        self.to = to
        self.emit = emit
        self.clock = clock
        # By identity, oldest first. A post adds, an answer takes out; other threads read copies.
        self._waiting: dict[int, Posted] = {}

    def post(self, entry: Entry, letter: Letter, answer: Callable[[Answer], None]) -> None:
        """Take the letter of a record; `answer` is called once, on any thread. Never blocks, never raises."""
        posted = Posted(entry)
        posted.way, posted.letter, posted.answer, posted.since_s = self, letter, answer, self.clock()
        self._waiting[id(posted)] = posted
        self.send(posted)

    @abstractmethod
    def send(self, posted: Posted) -> None:
        """Let a letter go. Never blocks, never raises."""

    @abstractmethod
    def why(self) -> str:
        """Say why nothing is answered, as far as that is known."""

    def take_out(self, posted: Posted) -> bool:
        """Wait no longer for a letter's answer; False: it was there before."""
        return self._waiting.pop(id(posted), None) is not None

    def check(self) -> None:
        """Tell of letters that have waited too long for their answer, once each."""
        for posted in self._late():
            if not posted.is_late:
                posted.is_late = True
                posted.report(f"it has not been acknowledged for {LATE_S:.0f} s: {self.why()}", 0.0)

    @property
    def problem(self) -> str | None:
        """What is wrong, while a letter of ours has waited too long."""
        # Of a partition that was taken away another member decides.
        late = [posted for posted in self._late() if not posted[EPOCH].ended]
        if not late:
            return None
        letter = late[0].letter
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return (
            f"The dead letter of {letter.origin}@{letter.offset}{more} has not been acknowledged by "
            f"{self.to} for {self.clock() - late[0].since_s:.0f} s, and nothing is committed past it: "
            f"{ended(self.why())}"
        )

    def _late(self) -> list[Posted]:
        before_s = self.clock() - LATE_S
        return list(takewhile(lambda one: one.since_s <= before_s, self._waiting.copy().values()))

    # What one without a thread of its own has nothing to do for.

    def wake(self) -> None:  # noqa: B027
        """See whether anything is due: the time has jumped."""

    def owns(self, _thread: threading.Thread) -> bool:
        """Tell whether a thread is its own."""
        return False

    def stop(self, timeout_s: float) -> None:  # noqa: B027
        """End its thread within a bound; what is not safe by then is redelivered."""
