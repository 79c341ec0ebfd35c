"""Dead letters to a topic: each is an output of its record.

At least once, its record has its outcome once the letter is acknowledged, so its key waits until then. In
an app that sends exactly once it has it at once: neither the letter nor the offset counts before their
transaction does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.lanes.decision import HoldHead
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.output import Output
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.recovery.letters.letter import shorter
from ehkafka.recovery.letters.way import LetterWay, Posted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.outputs.output import Answer, OutputRefusedError
    from ehkafka.outputs.unacknowledged import Unacknowledged

TOO_LARGE_ADVICE = (
    f"if the service takes larger records (a Dedicated namespace does), raise the property {LETTER_BYTES}: "
    f"App(consumer={{{LETTER_BYTES!r}: …}})"
)


class TopicWay(LetterWay):
    """One handler's way to one dead-letter topic."""

    def __init__(
        self,
        to: str,
        outputs: Unacknowledged,
        *,
        problem: Callable[[], str | None],
        refused: Callable[[str, str], None] | None = None,
        **common: Any,
    ) -> None:
        """`problem` says why no output is acknowledged; `common` is what `LetterWay` takes.

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

    def judge(self, output: Output, error: OutputRefusedError, _tries: int, answer: Answer) -> None:
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
