"""How long a task waits for a broker that writes nothing, and what its log shows meanwhile.

The reasons come from the client, inside of its `poll` on the task's thread, and from the thread that follows
a rotated key. A line for each of them would be one a second: a line every `LINE_S` names the last one.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem, ProducerReplaced, Throttled
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event

LINE_S: Final = 10.0
# A refused credential is reported by the way; librdkafka goes on trying, a task need not for minutes.
REFUSED_S: Final = 10.0
OF: Final = "rows"
LOG = logging.getLogger("ehkafka.spark.writer")


class TooLateError(EndpointError):
    """The broker wrote nothing for as long as a task may wait. Another task may find one that writes."""


class Patience:
    """One producer's. `timeout_s` is of the task that has it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.timeout_s = 0.0
        self.reason: str | None = None
        # Since when the credential has been refused.
        self._refused_since_s: float | None = None
        # When the broker last wrote something, and when a line last said that it does not.
        self._moved_s = self._logged_s = clock()

    def take(self, event: Event) -> None:
        """Take an event of the client."""
        if isinstance(event, ConnectionProblem):
            self.reason = event.error.removeprefix(f"{OF}: ")
            if event.code == "_AUTHENTICATION" and self._refused_since_s is None:
                self._refused_since_s = self._clock()
        elif isinstance(event, Throttled | ProducerReplaced):
            self.reason = event.sentence()
        elif event.level >= logging.WARNING:
            LOG.log(event.level, "%s", event.sentence())

    def moved(self) -> None:
        """Begin to wait anew: the broker writes, or nothing waits for it."""
        self._moved_s = self._logged_s = self._clock()
        self.reason = self._refused_since_s = None

    def check(self, what: str, problem: str | None = None) -> None:
        """Log what waits, in words such as `3 rows wait`, at times; end it when that takes too long.

        `problem` explains more than what the client reported. Raises `TooLateError`, and
        `EndpointError` for a credential that is refused.
        """
        now_s = self._clock()
        waited_s = now_s - self._moved_s
        standing = f"{what} for the broker, which has written nothing for {seconds(waited_s)}"
        why = ended(problem or self.reason or "it does not answer")
        refused_s = self._refused_since_s
        if refused_s is not None and now_s - refused_s >= min(REFUSED_S, self.timeout_s):
            raise EndpointError(f"{what} for a broker that refuses the credential: {why}")
        if waited_s >= self.timeout_s:
            raise TooLateError(
                f"{standing}: {why} Spark tries the task again, and sends its rows once more;"
                " deliveryTimeoutMs is how long a task waits."
            )
        if now_s - self._logged_s >= LINE_S:
            self._logged_s = now_s
            LOG.warning("%s: %s", standing, why)
