"""Dead letters to the user's own function: one thread a handler, tried again for as long as it raises."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from ehkafka.errors import said
from ehkafka.events import DeadLetterFailed, RecordDeadLettered
from ehkafka.lanes.order import describe_key
from ehkafka.records import Outcome
from ehkafka.recovery.decision import HoldHead

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.history import History
    from ehkafka.recovery.decision import Ticket, Verdict
    from ehkafka.recovery.letter import Letter
    from ehkafka.recovery.policy import DeadLetter

RETRY_FIRST_S = 0.5
RETRY_MAX_S = 30.0


class FunctionBox:
    """Calls the function for one letter after another. `complete` is the handler's exchange's."""

    def __init__(
        self,
        policy: DeadLetter,
        complete: Callable[[Ticket, Verdict], None],
        *,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        assert callable(policy.to)
        self._function = policy.to
        self._where = policy.where
        self._complete = complete
        self._emit = emit
        self._history = history
        self._inbox: deque[tuple[Ticket, Letter]] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        # Made with the first letter: most apps never write one.
        self._thread: threading.Thread | None = None

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter. Never blocks, never raises."""
        self._inbox.append((ticket, letter))
        self._wake.set()
        with self._lock:
            if self._thread is None:
                # A daemon: a function that never returns must not keep the process from leaving.
                self._thread = threading.Thread(target=self._run, name="ehkafka-letters", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            while self._inbox:
                self._deliver(*self._inbox.popleft())
            self._wake.wait()
            self._wake.clear()

    def _deliver(self, ticket: Ticket, letter: Letter) -> None:
        delay_s = RETRY_FIRST_S
        lane = ticket.lane
        while not lane.assignment.ended:
            try:
                self._function(letter)
            except BaseException as error:  # the user's function: told, and tried again
                said_so = said(error)
                self._emit(
                    DeadLetterFailed(
                        letter.origin, letter.offset, describe_key(lane.key), self._where, said_so, delay_s
                    )
                )
                threading.Event().wait(delay_s)
                delay_s = min(RETRY_MAX_S, delay_s * 2)
            else:
                self._answer(ticket, letter)
                return
        self._complete(ticket, HoldHead("its partition was taken away"))

    def _answer(self, ticket: Ticket, letter: Letter) -> None:
        lane = ticket.lane
        if self._history is not None:
            self._history.dead_lettered(letter.origin, letter.offset)
            epoch, attempt = lane.assignment.epoch, lane.attempts + 1
            outcome = Outcome.DEAD_LETTERED.value
            self._history.finished(letter.origin, epoch, letter.offset, lane.key, attempt, outcome)
        self._emit(RecordDeadLettered(letter.origin, letter.offset, describe_key(lane.key), self._where))
        self._complete(ticket, Outcome.DEAD_LETTERED)
