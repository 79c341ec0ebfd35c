"""How many batch workers get new records: one while calls are quick, else all.

Pure. Under the interpreter's lock a second thread only costs where calls are quick: each asks for the lock
while the other has it. Here the workers measure their calls: a batch is long enough for that.
"""

from __future__ import annotations

from typing import Final

from ehkafka.lanes.width import TRIAL_S, Width

# A record that takes its call less time is quick, and less of it in which the call waits for something.
QUICK_RECORD_S: Final = 5e-6
QUICK_WAIT_S: Final = 2e-6
# The weight of the last call in the means.
CALL_SHARE: Final = 0.2


class BatchWidth(Width):
    """The state of one batch handler."""

    def __init__(self) -> None:
        super().__init__(cores=1)
        # Means of a record; None before the first call has ended. Any worker writes them: what one of them
        # loses by that does no harm.
        self._record_s: float | None = None
        self._wait_s = 0.0

    def note_call(self, records: int, spent_s: float, cpu_s: float) -> None:
        """Take in what a call for so many records took, and how long of it its thread ran. Any thread."""
        # One call that the system held up is no slow handler, however long that was.
        record_s = min(spent_s / records, 2 * QUICK_RECORD_S)
        wait_s = min(max(0.0, spent_s - cpu_s) / records, 2 * QUICK_WAIT_S)
        if self._record_s is None:
            self._record_s, self._wait_s = record_s, wait_s
        else:
            self._record_s += CALL_SHARE * (record_s - self._record_s)
            self._wait_s += CALL_SHARE * (wait_s - self._wait_s)

    def note(self, now_s: float, mean_s: float, call_s: float | None, waits: float | None) -> None:
        """Choose by the calls that were noted."""
        del mean_s, call_s, waits  # what a check of the inboxes finds of them
        if self._record_s is None:
            return
        if self._record_s >= QUICK_RECORD_S or self._wait_s >= QUICK_WAIT_S:
            self.consumers = None
        elif self.consumers == 1:
            self._trial_s = TRIAL_S
        elif now_s >= self._next_trial_s:
            self.consumers = 1
