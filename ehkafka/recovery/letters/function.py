"""Dead letters to the user's function: one thread for each handler, which calls again if the function raises.

A dead letter that fails waits for its next try while others are delivered. The dead letters of a key keep
their order: the next one is posted when the one before is answered. The first dead letter starts the thread,
which ends with the run.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from typing import TYPE_CHECKING, Any

from ehkafka.errors import describe
from ehkafka.events.event import raised
from ehkafka.lanes.inbox import EPOCH
from ehkafka.recovery.letters.target import LetterTarget, Posted
from ehkafka.recovery.unrun import must_have_run

if TYPE_CHECKING:
    from ehkafka.recovery.policy import DeadLetter

IDLE_WAIT_S = 60.0
HAS_NOT_RETURNED = "the function has not returned"


class LetterFunction(LetterTarget):
    """Calls the function for one dead letter after another."""

    def __init__(self, policy: DeadLetter, **common: Any) -> None:
        """`common` are the arguments of `LetterTarget`."""
        super().__init__(policy.where, **common)
        assert callable(policy.to)
        self._function = policy.to
        self._serial = itertools.count()
        self._changed = threading.Condition()
        # Under its lock: when each dead letter is due. The first one starts the thread: most apps have none.
        self._due: list[tuple[float, int, Posted]] = []
        self._thread: threading.Thread | None = None
        self._stopping = False
        # Replaced by the thread, read by any.
        self._why = HAS_NOT_RETURNED

    def why(self) -> str:
        """Return why no dead letter is answered, as far as that is known."""
        return self._why

    def send(self, posted: Posted) -> None:
        """Deliver a dead letter. Never blocks, never raises."""
        self._add(posted, posted.since_s)

    def _add(self, posted: Posted, due_s: float) -> None:
        with self._changed:
            heapq.heappush(self._due, (due_s, next(self._serial), posted))
            self._changed.notify()
            if self._thread is None and not self._stopping:
                # A daemon: a function that never returns must not keep the process from leaving.
                self._thread = threading.Thread(target=self._run, name="ehkafka-letters", daemon=True)
                self._thread.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that calls the function."""
        return thread is self._thread

    def wake(self) -> None:
        """Check whether a dead letter is due: the clock has jumped. Any thread."""
        with self._changed:
            self._changed.notify()

    def stop(self, timeout_s: float) -> None:
        """End the thread; records whose dead letters are not delivered are handled again."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (posted := self._next()) is not None:
            self._deliver(posted)

    def _next(self) -> Posted | None:
        """Wait for the next letter that is due; None: the run ends."""
        with self._changed:
            while not self._stopping:
                wait_s = self._due[0][0] - self.clock() if self._due else IDLE_WAIT_S
                if wait_s <= 0:
                    return heapq.heappop(self._due)[-1]
                self._changed.wait(wait_s)
        return None

    def _deliver(self, posted: Posted) -> None:
        if posted[EPOCH].ended:
            posted.gone()
            return
        try:
            must_have_run(self._function(posted.letter), "the function", "the letter was not saved")
        except BaseException as error:  # the user's function: reported, and retried
            text, delay_s = describe(error), posted.retry_s()
            self._why = f"the function raised {text}"
            posted.report(text, delay_s, **raised(error))
            self._add(posted, self.clock() + delay_s)
        else:
            self._why = HAS_NOT_RETURNED
            posted.acknowledged()
