"""Outputs that the broker refuses, until their handler's rules have decided on them.

Their records stay out of each transaction meanwhile, and with them what is above in their partitions. The
transactions' thread adds and looks; judges answer from any thread; the poll thread asks for bounds.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ehkafka.outputs.answers import OutputRefusedError
from ehkafka.transactions.book import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.claim import Output
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.outputs.refused import Judge
    from ehkafka.transactions.letters import LetterOutput


class Refusal:
    """One refused output: how often it was tried, and when it may go again; None: not yet decided."""

    __slots__ = ("due_s", "output", "tries")

    def __init__(self, output: Output) -> None:
        self.output = output
        self.tries = 0
        self.due_s: float | None = None


class Refusals:
    """Knows them by their outputs."""

    def __init__(
        self,
        judges: Mapping[Outlet, Judge],
        *,
        clock: Callable[[], float],
        refuse_letter: Callable[[LetterOutput, str], None],
    ) -> None:
        """`refuse_letter` hears of a refused dead letter: nobody can decide on that one, so the run ends."""
        self._judges = judges
        self._clock = clock
        self._refuse_letter = refuse_letter
        self._lock = threading.Lock()
        # Under the lock.
        self._refusals: dict[Output, Refusal] = {}
        # Read without it: True while there is any.
        self.has_any = False
        # The judges' answers. Appended by any thread.
        self._decided: deque[tuple[Refusal, float | None]] = deque()

    def add(self, output: Output | LetterOutput, error: str) -> None:
        """Take an output that was refused, and ask its judge."""
        if output.claim is None:
            self._refuse_letter(output, error)
            return
        with self._lock:
            refusal = self._refusals.setdefault(output, Refusal(output))
            refusal.tries += 1
            refusal.due_s = None
            self.has_any = True
        refused = OutputRefusedError(f"its output to {output.topic!r} is refused: {error}")
        judge = self._judges[refusal.output.claim.outlet]
        judge(refusal.output, refused, refusal.tries, partial(self._decide, refusal))

    def sent(self, output: object) -> None:
        """Let go of one that was taken after all."""
        with self._lock:
            self._refusals.pop(output, None)  # type: ignore[call-overload]
            self.has_any = bool(self._refusals)

    def lowest(self, epoch: Epoch) -> int | None:
        """Return the lowest offset of an epoch that must not be committed; None where there is none."""
        if not self.has_any:
            return None
        self.take_decisions()
        now_s = self._clock()
        with self._lock:
            places = [
                place_of(one.output)
                for one in self._refusals.values()
                if one.due_s is None or one.due_s > now_s
            ]
        return min((offset for one, offset in places if one is epoch), default=None)

    def end(self, epochs: set[Epoch]) -> None:
        """Forget those of epochs that have ended."""
        if not self.has_any:
            return
        with self._lock:
            for output in [one for one in self._refusals if place_of(one)[0] in epochs]:
                del self._refusals[output]
            self.has_any = bool(self._refusals)

    def _decide(self, refusal: Refusal, delay_s: float | None) -> None:
        self._decided.append((refusal, delay_s))

    def take_decisions(self) -> None:
        """Take what judges have answered: another try later, or that it is not needed any more."""
        while self._decided:
            refusal, delay_s = self._decided.popleft()
            if delay_s is None:
                refusal.output.is_dropped = True
                self.sent(refusal.output)
            else:
                refusal.due_s = self._clock() + delay_s
