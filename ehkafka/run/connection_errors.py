"""Errors of the connection that librdkafka keeps trying to fix: who hears of them, and how often.

A refused client reports the same error several times a second for as long as it lasts. The user's
`on_error` gets each kind of it now and then; `problem` is for `App.health`. The method
`on_error` runs on the poll thread inside `consume()` and calls no user code itself; `problem` is read from
any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.endpoint.broker_errors import EXPLAINING
from ehkafka.endpoint.client import describe_error
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaError

ON_ERROR_SPACING_S: Final = 5.0
"""Between two calls of `on_error` for errors of one code."""

# Where nothing is seen: librdkafka waits at most 10 s (`reconnect.backoff.max.ms`) between two attempts, and
# a failed one is reported again, so after a longer silence it is over.
LASTS_S: Final = 15.0
# After the last error an idle app asks for an answer so late: a refusal is repeated within these seconds.
PROOFS_AFTER_S: Final = (1.0, 3.0, 7.0)


class ConnectionErrors:
    """Remembers when which error was heard; `report` gets those that the user's code should hear."""

    def __init__(self, clock: Callable[[], float], report: Callable[[KafkaError], None]) -> None:
        self._clock = clock
        self._report = report
        # By code, so it stays small. Poll thread only.
        self._reported_s: dict[int, float] = {}
        # The last error that says why there is no connection, and when. Replaced, never changed.
        self._last: tuple[float, KafkaError] | None = None
        # Poll thread only: records received and commits acknowledged, as seen first after that error.
        self._seen: tuple[int, int] | None = None
        # Poll thread only: how often an answer was asked for since.
        self._proofs = 0

    def on_error(self, error: KafkaError) -> None:
        """Take an error that librdkafka has reported."""
        now_s = self._clock()
        if error.code() in EXPLAINING:
            self._last = (now_s, error)
            self._seen = None
            self._proofs = 0
        reported_s = self._reported_s.get(error.code())
        if reported_s is None or now_s - reported_s >= ON_ERROR_SPACING_S:
            self._reported_s[error.code()] = now_s
            self._report(error)

    def check(self, received_records: int, acknowledged_commits: int, up_at_s: float = float("-inf")) -> None:
        """End the problem where a connection came up, or records or an acknowledged commit have come since.

        Now and then. `up_at_s` is when a broker accepted this client last: an idle app's only sign, where its
        group has committed nothing that could be sent again.
        """
        if self._last is None:
            return
        if up_at_s > self._last[0]:
            self._last = None
            return
        now = (received_records, acknowledged_commits)
        if self._seen is None:
            self._seen = now
        elif now != self._seen:
            self._last = None

    def wants_proof(self) -> bool:
        """Tell whether it is time to ask the broker for something: an answer would end the problem."""
        if self._last is None or self._proofs >= len(PROOFS_AFTER_S):
            return False
        is_time = self._clock() - self._last[0] >= PROOFS_AFTER_S[self._proofs]
        self._proofs += is_time
        return is_time

    @property
    def problem(self) -> str | None:
        """Why brokers cannot be reached or refuse this client, while that lasts."""
        last = self._last
        if last is None or self._clock() - last[0] > LASTS_S:
            return None
        return f"The connection to a broker fails: {ended(describe_error(last[1]))}"
