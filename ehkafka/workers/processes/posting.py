"""What calls in a worker process have sent, put into the book by their parent.

On the thread that owns the child; waits there for room, as a handler's thread does. A record's outputs are
in the book before its inbox shows that it has ended, so that each key's keep their order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ehkafka.outputs.book import NotSentError
from ehkafka.records.deferral import DEFERRED, is_deferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.lanes.attempt import Attempt
    from ehkafka.lanes.decision import AwaitHead
    from ehkafka.outputs.claim import Claim
    from ehkafka.outputs.making import Made
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.recovery.pending import PendingAnswers


class Posting:
    """One handler's, for all of its children."""

    def __init__(self, outlet: Outlet, deferrals: PendingAnswers) -> None:
        self._outlet = outlet
        self._deferrals = deferrals

    @property
    def is_before_next(self) -> bool:
        """Whether a key's next record waits until the outputs are acknowledged."""
        return self._outlet.before_next

    def ended(self, attempt: Attempt, made: Sequence[Made]) -> bool:
        """Send what a call has sent that has returned; True: its record's end is left to its outputs.

        Raises `NotSentError`.
        """
        outlet = self._outlet
        if not made and not outlet.in_vain:
            return False
        claim = self._begin(attempt)
        try:
            if made:
                outlet.post(claim, made)
        except BaseException:
            outlet.failed(claim)
            raise
        outlet.returned(claim)
        return is_deferred(attempt.message)

    def awaits(self, attempt: Attempt) -> AwaitHead | None:
        """Return how a record waits for its outputs. Raises what they were refused with meanwhile."""
        return self._deferrals.claims(attempt) if DEFERRED else None

    def failed(self, attempt: Attempt, made: Sequence[Made]) -> None:
        """Send what a call had sent before it raised: another attempt sends it again."""
        if made:
            claim = self._begin(attempt)
            # Its partition is another's, or the app has stopped: what the call raised is the reason to tell.
            with suppress(NotSentError):
                self._outlet.post(claim, made)
            self._outlet.failed(claim)

    def note_kind(self, topic: str, kind: str) -> None:
        """Note what kind of values a child has sent to a topic for the first time."""
        self._outlet.note_kind(topic, kind)

    def _begin(self, attempt: Attempt) -> Claim:
        return self._outlet.begin(attempt.epoch, attempt.message, attempt.number)
