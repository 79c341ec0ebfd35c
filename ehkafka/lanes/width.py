"""How many consumers take new keys: one for quick handlers, as many as cores for computing ones, else all.

Pure. Under the interpreter's lock a second thread only costs where calls are quick or compute: each asks for
the lock while the other has it. What a handler does shows where one consumer has the records to itself: then
the time of a call is the handler's own, and how often its thread waits tells computing from waiting. Calls
for many records are long enough for their workers to measure them.
"""

from __future__ import annotations

import math
from typing import Final

# Calls quicker than this run faster one after another on one thread than on two.
QUICK_S: Final = 30e-6
# Only means below it make a new trial worth what it costs.
TRIAL_MEAN_S: Final = 5e-4
# Between two trials: soon after a handler was quick, then ever more rarely.
TRIAL_S: Final = 0.1
TRIAL_MAX_S: Final = 3.2
# Waits of a call, below which a handler computes; and above which it has ceased to.
COMPUTES_WAITS: Final = 0.3
CEASES_WAITS: Final = 0.6
# A record that takes less of a call for many is quick; what its thread waits counts for so much more. The
# weight of the last call in the mean.
QUICK_IN_BATCH_S: Final = 5e-6
WAIT_WEIGHT: Final = 2.5
CALL_SHARE: Final = 0.2


class Width:
    """The state of one handler."""

    def __init__(self, cores: int | None, *, is_measured: bool = False) -> None:
        """`cores`: how many consumers a computing handler gets; None: all always take new keys.

        `is_measured`: its workers call `note_call`.
        """
        self.cores = cores
        self.is_measured = is_measured
        # What a record of such calls takes, about; None before the first one has ended. Any worker writes
        # it: what one of them loses by that does no harm.
        self.measured_s: float | None = None
        # How many take new keys; None: all. It begins with a trial.
        self.consumers = None if cores is None else 1
        # Whether checks are to count how often the first consumer's thread waits: not while calls are quick.
        self.counts_waits = cores is not None
        self._trial_s = TRIAL_S
        self._next_trial_s = math.inf if cores is None else 0.0

    @property
    def is_quick(self) -> bool:
        """Whether one consumer runs all, or is tried."""
        return self.consumers == 1

    def widen(self, now_s: float) -> None:
        """Let all consumers take new keys: some call takes long."""
        if self.consumers is not None:
            self.consumers, self.counts_waits = None, False
            self._delay_trial(now_s)

    def _delay_trial(self, now_s: float) -> None:
        self._next_trial_s = now_s + self._trial_s
        self._trial_s = min(TRIAL_MAX_S, 2 * self._trial_s)

    def note_call(self, records: int, spent_s: float, cpu_s: float) -> None:
        """Take in what a call for so many records took, and how long of it its thread ran. Any thread."""
        each_s = max(spent_s, WAIT_WEIGHT * (spent_s - cpu_s)) / records
        # One call that the system held up is no slow handler, however long that was.
        each_s = min(each_s, 2 * QUICK_IN_BATCH_S)
        mean_s = each_s if self.measured_s is None else self.measured_s
        self.measured_s = mean_s + CALL_SHARE * (each_s - mean_s)

    def note(self, now_s: float, mean_s: float, call_s: float | None, waits: float | None) -> None:
        """Take in what a check saw.

        `mean_s`: the time of a record over all consumers. `call_s`: what one took the first consumer, where
        that had something all the time; `waits`: how often it waited for a record, where that is known.
        """
        quick_s, trial_s = QUICK_S, TRIAL_MEAN_S
        if self.is_measured:
            quick_s = trial_s = QUICK_IN_BATCH_S
            call_s, waits = self.measured_s, None
            mean_s = quick_s if call_s is None else call_s
        if self.consumers is None:
            if mean_s < trial_s and now_s >= self._next_trial_s:
                self.consumers, self.counts_waits = 1, True
        elif call_s is None:
            # The first consumer rested, which does not show how long its calls take. But if each of several
            # rests and the mean is low, calls are too quick to be seen at work.
            if self.consumers > 1 and mean_s < quick_s and now_s >= self._next_trial_s:
                self.consumers = 1
        elif call_s < quick_s:
            self.consumers, self.counts_waits, self._trial_s = 1, False, TRIAL_S
        elif not self.counts_waits:
            self.counts_waits = True  # it was quick until now: the next check tells
        elif waits is not None and waits < (COMPUTES_WAITS if self.consumers == 1 else CEASES_WAITS):
            if self.consumers == 1:
                self._delay_trial(now_s)
            self.consumers = self.cores
        else:
            self.widen(now_s)
