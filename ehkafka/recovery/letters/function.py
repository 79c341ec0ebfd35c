"""Dead letters to the user's own function: one thread a handler, retried for as long as it raises.

A letter that fails waits for its next try while others are delivered. A key's letters keep their order: one
is posted, and the next when that one is answered. The thread is made with the first letter and ends with the
run.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import describe
from ehkafka.events import DeadLetterFailed
from ehkafka.events.event import raised
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.order import describe_key
from ehkafka.recovery.letters.answer import answer_safe
from ehkafka.recovery.unrun import must_have_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.recovery.policy import DeadLetter

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0
IDLE_WAIT_S = 60.0
HAS_NOT_RETURNED = "the function has not returned"


class Parcel(NamedTuple):
    """A letter to be delivered, and how often that was tried."""

    ticket: Ticket
    letter: Letter
    tries: int = 0


class FunctionSender:
    """Calls the function for one letter after another. `complete` is its hub's `answer`."""

    def __init__(
        self,
        policy: DeadLetter,
        complete: Callable[[Ticket, Answer], None],
        *,
        emit: Callable[[Event], None],
        history: History | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert callable(policy.to)
        self._function = policy.to
        self._where = policy.where
        self._complete = complete
        self._emit = emit
        self._clock = clock
        self._history = history
        self._inbox: deque[Parcel] = deque()
        # The sender's thread only.
        self._later: list[tuple[float, int, Parcel]] = []
        self._serial = itertools.count()
        self._wake = threading.Event()
        self._stopping = False
        # Why nothing is answered. Replaced by the sender's thread, read by any.
        self.problem = HAS_NOT_RETURNED
        self._lock = threading.Lock()
        # Under the lock. Made with the first letter: most apps never write one.
        self._thread: threading.Thread | None = None

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._inbox.append(Parcel(ticket, letter))
        self._wake.set()
        with self._lock:
            if self._thread is None and not self._stopping:
                # A daemon: a function that never returns must not keep the process from leaving.
                self._thread = threading.Thread(target=self._run, name="ehkafka-letters", daemon=True)
                self._thread.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that calls the function."""
        return thread is self._thread

    def stop(self, timeout_s: float) -> None:
        """End the thread; what is not delivered belongs to records that are redelivered."""
        with self._lock:
            self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def wake(self) -> None:
        """See whether a letter is due: the time has jumped. Any thread."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            now_s = self._clock()
            while self._later and self._later[0][0] <= now_s:
                self._inbox.append(heapq.heappop(self._later)[2])
            while self._inbox and not self._stopping:
                self._deliver(self._inbox.popleft())
            self._wake.wait(self._patience_s())
            self._wake.clear()

    def _patience_s(self) -> float:
        if self._inbox:
            return 0.0
        return max(0.0, self._later[0][0] - self._clock()) if self._later else IDLE_WAIT_S

    def _deliver(self, parcel: Parcel) -> None:
        if parcel.ticket.attempt.epoch.ended:
            self._complete(parcel.ticket, HoldHead("its partition was taken away"))
            return
        try:
            must_have_run(self._function(parcel.letter), "the function", "the letter was not saved")
        except BaseException as error:  # the user's function: reported, and retried
            self._retry(parcel, error)
        else:
            self.problem = HAS_NOT_RETURNED
            answer_safe(
                parcel.ticket,
                parcel.letter,
                self._where,
                complete=self._complete,
                emit=self._emit,
                history=self._history,
            )

    def _retry(self, parcel: Parcel, error: BaseException) -> None:
        text = describe(error)
        self.problem = f"the function raised {text}"
        delay_s = min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(parcel.tries, 10))
        letter, key = parcel.letter, describe_key(parcel.ticket.attempt.key)
        what = (letter.origin, letter.offset, key, self._where, text, delay_s)
        self._emit(DeadLetterFailed(*what, **raised(error)))
        again = parcel._replace(tries=parcel.tries + 1)
        heapq.heappush(self._later, (self._clock() + delay_s, next(self._serial), again))
