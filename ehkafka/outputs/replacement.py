"""When a producer is replaced by another one: decided by what became of its messages.

Pure; no clock. A broker may forget a producer's id, after a time-out or an upgrade of its own, and answers
with errors 47, 49 or 59 from then on: always to that producer (azure-event-hubs-for-kafka#261).
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 1.0
MAX_S: Final = 60.0

FAILURES_MAX: Final = 3
"""So many failures in a row, of whatever kind, are no accident: a new connection and a new id may help."""

ID_IS_FORGOTTEN: Final = frozenset({47, 49, 59})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID, as Kafka's protocol numbers
them: no other try of the same producer can succeed."""


class Replacement:
    """Counts one producer's failures, and the producers that failed one after the other."""

    def __init__(self) -> None:
        self._failures = 0
        # Since the last acknowledgement: how often the epoch was raised, and which of that was reported.
        self._epochs_known = 0
        self._epochs_raised = 0
        self._reported = 0
        self._replaced = 0
        self._is_lost = False

    @property
    def is_wanted(self) -> bool:
        """Tell whether the producer is of no use any more."""
        # Each refused message raises the epoch, too; what is beyond that, librdkafka keeps to itself.
        unreported = self._epochs_raised - self._reported
        return self._is_lost or self._failures >= FAILURES_MAX or unreported >= FAILURES_MAX

    @property
    def replaced(self) -> int:
        """How many producers were replaced since the last acknowledgement."""
        return self._replaced

    def acknowledged(self) -> None:
        """Note that a message is written."""
        self._failures = self._replaced = 0
        self._epochs_known += self._epochs_raised
        self._epochs_raised = self._reported = 0

    def reported(self) -> None:
        """Note a delivery report with an error, whatever it leads to."""
        self._reported += 1

    def failed(self, code: int, *, is_fatal: bool = False) -> None:
        """Note an error, by Kafka's number; `is_fatal` where librdkafka says so."""
        self._failures += 1
        self._is_lost |= is_fatal or code in ID_IS_FORGOTTEN

    def raised(self, epochs: int) -> None:
        """Note how often the producer has raised its epoch by itself since its id was given."""
        self._epochs_raised = max(0, epochs - self._epochs_known)

    def wait_s(self, *, counts: bool = True) -> float:
        """Return how long to wait before the next producer is opened. Called once for each.

        One that does not count was given up through no fault of its own or of the broker's.
        """
        wait_s = min(MAX_S, FIRST_S * (1 << min(self._replaced, 10)))
        self._replaced += counts
        self._failures = self._epochs_known = self._epochs_raised = self._reported = 0
        self._is_lost = False
        return wait_s
