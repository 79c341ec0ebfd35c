"""Decides when a producer is replaced by another one, from the results of its messages.

Pure; no clock. A broker may forget a producer's id, after a time-out or an upgrade of the broker. From then
on it answers each request of that producer with error 47, 49 or 59 (azure-event-hubs-for-kafka#261).
"""

from __future__ import annotations

from typing import Final

FIRST_S: Final = 1.0
MAX_S: Final = 60.0

FAILURES_MAX: Final = 3
"""After so many failures in a row, of any kind, a new connection and a new id may help."""

ID_IS_FORGOTTEN: Final = frozenset({47, 49, 59})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING and UNKNOWN_PRODUCER_ID, by Kafka's numbers: no
further try of the same producer can succeed."""


class Replacement:
    """Counts one producer's failures, and the producers that failed one after the other."""

    def __init__(self) -> None:
        self._failures = 0
        # Since the last acknowledgement: how often the epoch was raised, and how many errors were reported.
        self._epochs_known = 0
        self._epochs_raised = 0
        self._reported = 0
        self._replaced = 0
        self._is_lost = False

    @property
    def is_wanted(self) -> bool:
        """Tell whether another producer is needed."""
        # Each refused message raises the epoch as well; librdkafka does not report the other reasons.
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
        """Note a delivery report with an error, of any kind."""
        self._reported += 1

    def failed(self, code: int, *, is_fatal: bool = False) -> None:
        """Note an error, by Kafka's number; `is_fatal` as librdkafka has it."""
        self._failures += 1
        self._is_lost |= is_fatal or code in ID_IS_FORGOTTEN

    def raised(self, epochs: int) -> None:
        """Note how often the producer has raised its epoch by itself since its id was given."""
        self._epochs_raised = max(0, epochs - self._epochs_known)

    def wait_s(self, *, counts: bool = True) -> float:
        """Return the seconds to wait before the next producer is opened. Called once for each producer.

        Not `counts`: neither the producer nor the broker was the reason for the replacement.
        """
        wait_s = min(MAX_S, FIRST_S * (1 << min(self._replaced, 10)))
        self._replaced += counts
        self._failures = self._epochs_known = self._epochs_raised = self._reported = 0
        self._is_lost = False
        return wait_s
