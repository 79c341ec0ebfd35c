"""Dead letters to a topic: each is an output of its record.

At least once, its record has its outcome once the letter is acknowledged, so its key waits until then. In
an app that sends exactly once it has it at once: neither the letter nor the offset counts before their
transaction does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.events import DeadLetterFailed
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.order import describe_key
from ehkafka.outputs.checked import ANY_PARTITION
from ehkafka.outputs.output import Output, Source
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.recovery.letters.answer import answer_safe
from ehkafka.recovery.letters.letter import shorter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer as Outcome
    from ehkafka.lanes.decision import Ticket
    from ehkafka.outputs.output import Answer, OutputRefusedError
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.recovery.letters.letter import Letter

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
TOO_LARGE_ADVICE = (
    f"if the service takes larger records (a Dedicated namespace does), raise the property {LETTER_BYTES}: "
    f"App(consumer={{{LETTER_BYTES!r}: …}})"
)


class TopicLetters:
    """One handler's way to one dead-letter topic. `post` from any thread."""

    def __init__(
        self,
        to: str,
        complete: Callable[[Ticket, Outcome], None],
        outputs: Unacknowledged,
        *,
        emit: Callable[[Event], None],
        history: History | None,
        at_once: bool = False,
        refused: Callable[[str, str], None] = lambda _where, _error: None,
    ) -> None:
        """`complete` is its hub's `answer`; `at_once`: the record has its outcome with the put.

        `refused` hears of a letter that no try can write; its record is held where it has no outcome yet.
        """
        self.to = to
        self.complete = complete
        self.emit = emit
        self.history = history
        self.at_once = at_once
        self._outputs = outputs
        self._refused = refused

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        source = _LetterSource(ticket.attempt.entry)
        source.way, source.ticket, source.letter = self, ticket, letter
        if self._put(source) and self.at_once:
            # Last: a commit that finds the record finished must find its letter.
            source.answer()

    def _put(self, source: _LetterSource) -> bool:
        letter = source.letter
        place = self.to, letter.value, letter.key, list(letter.headers), ANY_PARTITION
        output = Output(self, source, *place)
        try:
            self._outputs.put(source, output, output.size, waits=False)
        except NotSentError:
            source.gone()
            return False
        return True

    def judge(self, output: Output, error: OutputRefusedError, tries: int, answer: Answer) -> None:
        """Send a letter that is too large with less of its error's text; else try again, or hold its record.

        A refused letter never makes another letter.
        """
        source = output.source
        assert isinstance(source, _LetterSource)
        if error.is_too_large and (less := shorter(source.letter)) is not None:
            # Put before the other is let go of, so that its record waits all the time.
            again = _LetterSource(source)
            again.way, again.ticket, again.letter = self, source.ticket, less
            # Else its partition was taken away, and nothing is to count without the letter.
            if self._put(again):
                answer(None)
        elif error.is_too_large or error.is_for_good:
            text = f"its dead letter is refused by {self.to}: {error}"
            text = f"{text}; {TOO_LARGE_ADVICE}" if error.is_too_large else text
            self._report(source, text, None)
            self._refused(source.where, str(error))
            if not self.at_once:
                self.complete(source.ticket, HoldHead(text, letter_refused=True))
                answer(None)
        else:
            delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries - 1, 10))
            self._report(source, str(error), delay_s)
            answer(delay_s)

    def _report(self, source: _LetterSource, error: str, retry_s: float | None) -> None:
        letter, key = source.letter, describe_key(source.ticket.attempt.key)
        self.emit(DeadLetterFailed(letter.origin, letter.offset, key, self.to, error, retry_s))


class _LetterSource(Source):
    """A record whose dead letter is on its way."""

    way: TopicLetters
    ticket: Ticket
    letter: Letter

    @property
    def where(self) -> str:
        """The record, for messages."""
        return f"{self.letter.origin}@{self.letter.offset}"

    def answer(self) -> None:
        """Give the record the result *dead-lettered*."""
        way: Any = self.way
        answer_safe(
            self.ticket, self.letter, way.to, complete=way.complete, emit=way.emit, history=way.history
        )

    def acknowledged(self) -> None:
        """Give the record its result, unless it has it."""
        if not self.way.at_once:
            self.answer()

    def gone(self) -> None:
        """Decide nothing: another member has the record now."""
        if not self.way.at_once:
            self.way.complete(self.ticket, HoldHead("its partition was taken away"))
