"""Where a handler's dead letters go: each from its posting to its record's result; to a topic, as an output.

Which have waited too long is asked by the thread that watches the run: what writes them may hang.

At least once, a record has its outcome once its letter is acknowledged, so its key waits until then. In an
app that sends exactly once it has it at once: neither the letter nor the offset counts before their
transaction does.
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
from ehkafka.outputs.output import Output, Source
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
"""How long a letter may wait for its answer before that is reported."""
TOO_LARGE_ADVICE = (
    f"if the service takes larger records (a Dedicated namespace does), raise the property {LETTER_BYTES}: "
    f"App(consumer={{{LETTER_BYTES!r}: …}})"
)


class Posted(Source):
    """A record whose dead letter is not safe yet."""

    target: LetterTarget
    letter: Letter
    answer: Callable[[Answer], None]
    since_s: float
    is_late = False
    # How often the letter could not be written.
    tries = 0

    def acknowledged(self) -> None:
        """Give the record the result *dead-lettered*, unless it has one."""
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
        """Tell that the letter could not be written."""
        letter, target = self.letter, self.target
        what = (letter.origin, letter.offset, describe_key(self[KEY]), target.to, error, retry_s)
        target.emit(DeadLetterFailed(*what, **stack))

    def retry_s(self) -> float:
        """Count a try that failed, and return when the next one is due: later each time."""
        self.tries += 1
        doubled: int = 1 << min(self.tries - 1, 10)
        return min(RETRY_MAX_S, RETRY_FIRST_S * doubled)


class LetterTarget(ABC):
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
        posted.target, posted.letter, posted.answer, posted.since_s = self, letter, answer, self.clock()
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
        """`problem` says why no output is acknowledged; `common` is what `LetterTarget` takes.

        With `refused` a record has its outcome with the put; it hears of a letter that no try can write.
        """
        super().__init__(to, **common)
        self._outputs = outputs
        self._problem = problem
        self._refused = refused

    def why(self) -> str:
        """Say why nothing is answered, as far as that is known."""
        return self._problem() or "the broker has not answered"

    def send(self, posted: Posted) -> None:
        """Put a letter. Never blocks, never raises."""
        letter = posted.letter
        output = Output(self, posted, self.to, letter.value, letter.key, [*letter.headers], ANY_PARTITION)
        try:
            self._outputs.put(posted, output, output.size, waits=False)
        except NotSentError:
            posted.gone()
        else:
            if self._refused is not None:
                # Last: a commit that finds the record finished must find its letter.
                posted.acknowledged()

    def judge(self, output: Output, error: OutputRefusedError, _tries: int, answer: OutputAnswer) -> None:
        """Send a letter that is too large with less of its error's text; else try again, or hold its record.

        A refused letter never makes another letter.
        """
        posted = output.source
        assert isinstance(posted, Posted)
        if error.is_too_large and (less := shorter(posted.letter)) is not None:
            # The same output, so that it keeps its place in its key's order; the list is its own.
            posted.letter, output.headers[:] = less, less.headers
            answer(0.0)
        elif error.is_too_large or error.is_for_good:
            text = f"its dead letter is refused by {self.to}: {error}"
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
