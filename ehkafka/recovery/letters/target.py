"""The target of a handler's dead letters: it follows each one from its posting to its record's outcome.

A topic takes them as outputs. The thread that watches the run asks for those that have waited too long,
because the thread that writes them may hang.

Without transactions a record has its outcome when its dead letter is acknowledged, so its key waits until
then. With exactly once the record has its outcome at once, because one transaction commits both the dead
letter and the offset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.events import DeadLetterFailed, RecordDeadLettered
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import EPOCH, KEY
from ehkafka.lanes.order import describe_key
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.output import EntrySource, Output
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.records import Outcome
from ehkafka.recovery.letters.letter import shorter
from ehkafka.wording import ended

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.lanes.decision import Answer
    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.output import Answer as OutputAnswer
    from ehkafka.outputs.output import OutputRefusedError
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.recovery.letters.letter import Letter

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
LATE_S: Final = 10.0
"""A dead letter that waits longer for its answer is reported."""
TOO_LARGE_ADVICE = (
    f"if the service accepts larger records (as a Dedicated namespace does), raise the property "
    f"{LETTER_BYTES}: "
    f"App(consumer={{{LETTER_BYTES!r}: …}})"
)


class Posted(EntrySource):
    """A record whose dead letter is not acknowledged yet."""

    target: LetterTarget
    letter: Letter
    answer: Callable[[Answer], None]
    since_s: float
    is_late = False
    # How often the dead letter could not be written.
    tries = 0

    def acknowledged(self, _written: object = None) -> None:
        """End the record as *dead-lettered*, unless it has a result."""
        if self.target.take_out(self):
            letter, target = self.letter, self.target
            target.emit(RecordDeadLettered(letter.origin, letter.offset, describe_key(self[KEY]), target.to))
            self.answer(Outcome.DEAD_LETTERED)

    def gone(self) -> None:
        """Decide nothing: another member has the record now."""
        self.hold(HoldHead("its partition was taken away"))

    def hold(self, head: HoldHead) -> None:
        """Let the record wait for the next start, unless it has a result."""
        if self.target.take_out(self):
            self.answer(head)

    def report(self, error: str, retry_s: float | None, **stack: Any) -> None:
        """Report that the dead letter could not be written."""
        letter, target = self.letter, self.target
        what = (letter.origin, letter.offset, describe_key(self[KEY]), target.to, error, retry_s)
        target.emit(DeadLetterFailed(*what, **stack))

    def retry_s(self) -> float:
        """Count a try that failed, and return the seconds until the next one: more each time."""
        self.tries += 1
        doubled: int = 1 << min(self.tries - 1, 10)
        return min(RETRY_MAX_S, RETRY_FIRST_S * doubled)


class LetterTarget(ABC):
    """Any thread uses `post` and `problem`; the thread that watches the run calls `check`."""

    def __init__(self, to: str, *, emit: Callable[[Event], None], clock: Callable[[], float]) -> None:
        """`to` names the topic or function in messages."""
        self.to = to
        self.emit = emit
        self.clock = clock
        # By identity, oldest first. `post` adds, an answer removes; other threads read copies.
        self._waiting: dict[int, Posted] = {}

    def post(self, entry: Entry, letter: Letter, answer: Callable[[Answer], None]) -> None:
        """Post a record's dead letter; `answer` is called once, on any thread. Never blocks, never raises."""
        posted = Posted(entry)
        posted.target, posted.letter, posted.answer, posted.since_s = self, letter, answer, self.clock()
        self._waiting[id(posted)] = posted
        self.send(posted)

    @abstractmethod
    def send(self, posted: Posted) -> None:
        """Send a dead letter. Never blocks, never raises."""

    @abstractmethod
    def why(self) -> str:
        """Return why no dead letter is answered, as far as that is known."""

    def take_out(self, posted: Posted) -> bool:
        """Stop waiting for a dead letter's answer; False: it was answered before."""
        return self._waiting.pop(id(posted), None) is not None

    def check(self) -> None:
        """Report dead letters that have waited too long for their answer, once each."""
        for posted in self._late():
            if not posted.is_late:
                posted.is_late = True
                posted.report(
                    f"the dead letter has not been acknowledged for {LATE_S:.0f} s: {self.why()}", 0.0
                )

    @property
    def problem(self) -> str | None:
        """The problem, in words, while a dead letter has waited too long."""
        # For a partition that was taken away another member decides.
        late = [posted for posted in self._late() if not posted[EPOCH].ended]
        if not late:
            return None
        letter = late[0].letter
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return (
            f"The dead letter of {letter.origin}@{letter.offset}{more} has not been acknowledged by "
            f"{self.to} for {self.clock() - late[0].since_s:.0f} s, and commits wait for it: "
            f"{ended(self.why())}"
        )

    def _late(self) -> list[Posted]:
        before_s = self.clock() - LATE_S
        return list(takewhile(lambda one: one.since_s <= before_s, self._waiting.copy().values()))

    # Defaults for a target without a thread of its own.

    def wake(self) -> None:  # noqa: B027
        """Check whether a dead letter is due: the clock has jumped."""

    def owns(self, _thread: threading.Thread) -> bool:
        """Tell whether a thread belongs to it."""
        return False

    def stop(self, timeout_s: float) -> None:  # noqa: B027
        """End its thread within `timeout_s`; records whose dead letters are not safe are handled again."""


class LetterTopic(LetterTarget):
    """A topic, for one handler's dead letters."""

    def __init__(
        self,
        to: str,
        outputs: Unacknowledged,
        *,
        problem: Callable[[], str | None],
        refused: Callable[[str, str], None] | None = None,
        **common: Any,
    ) -> None:
        """`problem` returns why no output is acknowledged; `common` are the arguments of `LetterTarget`.

        `refused` is for exactly once: a record has its outcome with the put, and `refused` is called for a
        dead letter that the broker refuses permanently.
        """
        super().__init__(to, **common)
        self._outputs = outputs
        self._problem = problem
        self._refused = refused

    def why(self) -> str:
        """Return why no dead letter is answered, as far as that is known."""
        return self._problem() or "the broker has not answered"

    def send(self, posted: Posted) -> None:
        """Put a dead letter as an output. Never blocks, never raises."""
        letter = posted.letter
        output = Output(self, posted, self.to, letter.value, letter.key, [*letter.headers], ANY_PARTITION)
        try:
            self._outputs.put(posted, output, output.size, waits=False)
        except NotSentError:
            posted.gone()
        else:
            if self._refused is not None:
                # Last: a commit that finds the record finished must find its dead letter.
                posted.acknowledged()

    def judge(self, output: Output, error: OutputRefusedError, _tries: int, answer: OutputAnswer) -> None:
        """Decide on a refused dead letter: send a shorter one, try again later, or hold its record.

        A dead letter that is refused never becomes another dead letter.
        """
        posted = output.source
        assert isinstance(posted, Posted)
        if error.is_too_large and (less := shorter(posted.letter)) is not None:
            # The same output keeps its place in the order of its key. It owns its list of headers.
            posted.letter, output.headers[:] = less, less.headers
            answer(0.0)
        elif error.is_too_large or error.is_for_good:
            text = f"the dead-letter topic {self.to} refuses its dead letter: {error}"
            text = f"{text}; {TOO_LARGE_ADVICE}" if error.is_too_large else text
            posted.report(text, None)
            if self._refused is not None:
                self._refused(f"{posted.letter.origin}@{posted.letter.offset}", str(error))
            else:
                posted.hold(HoldHead(text, letter_refused=True))
                answer(None)
        else:
            delay_s = posted.retry_s()
            posted.report(str(error), delay_s)
            answer(delay_s)
