"""What attempts had sent before they failed, for the letter of their record.

Written and read by the handler's workers, each for its own record; a record that goes to another owner in
between is let go of once there are many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.claim import Claim

# Records known before the first look for those whose epoch has ended.
RECORDS_MIN: Final = 256


class InVain:
    """The failed calls of records that get, or may get, another attempt.

    `open_calls` are the outlet's; `report` is called for a deferred call that failed after it had sent.
    """

    def __init__(
        self, open_calls: Mapping[int, Claim], report: Callable[[Claim], None], *, is_void: bool = False
    ) -> None:
        self._open_calls = open_calls
        self._report = report
        # What failed calls had sent goes nowhere: then nothing is ever sent in vain.
        self._is_void = is_void
        # By epoch and offset. Each entry is changed by the worker that has the record alone.
        self.claims: dict[tuple[Epoch, int], tuple[Claim, ...]] = {}
        self._records_max = RECORDS_MIN

    def __len__(self) -> int:
        return len(self.claims)

    def note(self, claim: Claim) -> None:
        """Keep a call of one record that has failed. Of a batch nobody knows whose outputs they were."""
        if len(claim.inputs) > 1 or self._is_void:
            return
        (place,) = claim.inputs
        self.claims[place] = (*self.claims.get(place, ()), claim)
        if len(self.claims) > self._records_max:
            for epoch, offset in list(self.claims):
                if epoch.ended:
                    self.claims.pop((epoch, offset), None)
            self._records_max = max(RECORDS_MIN, 2 * len(self.claims))

    def end(self, claim: Claim) -> None:
        """Let go of records that a call has handled. It may have been failed by its token meanwhile."""
        for place in claim.inputs:
            if claim not in self.claims.get(place, ()):
                self.claims.pop(place, None)

    def counts(self, epoch: Epoch, message: Any) -> tuple[int, int]:
        """Return how many outputs a record's failed attempts had sent, and how many are acknowledged."""
        claims = {*self.claims.get((epoch, message.offset()), ())}
        # One that was deferred and then failed is known as long as it may send.
        deferred = None if self._is_void else self._open_calls.get(id(message))
        if deferred is not None and len(deferred.inputs) == 1:
            claims.add(deferred)
        return sum(claim.posted for claim in claims), sum(claim.acknowledged for claim in claims)

    def decided(self, epoch: Epoch, message: Any, *, again: bool) -> None:
        """Hear what becomes of a record that failed: another attempt, or no more."""
        deferred = self._open_calls.get(id(message))
        if deferred is not None:
            deferred.has_failed = True
        if deferred is not None and deferred.posted and not self._is_void:
            self._report(deferred)
            self.note(deferred)
        if not again:
            self.claims.pop((epoch, message.offset()), None)
