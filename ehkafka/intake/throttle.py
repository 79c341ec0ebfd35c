"""Throttling by brokers: how much, and whether an empty fetch can mean anything now.

A throttled fetch comes back empty and without an error, on Event Hubs and (with the time in the answer) on
Apache Kafka, which then also leaves out where the log ends. So while a broker throttles, and for a while
after, silence proves nothing: no partition counts as idle, and no lag as zero.
librdkafka calls `on_throttle` inside `consume()`, on the poll thread; the rest is read from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import Throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import ThrottleEvent

    from ehkafka.events import Event

# After the end of the throttling that was reported: a fetch that waits for records takes half a second, and
# its answer must have been seen before silence counts again.
AFTERMATH_S = 2.0


class Throttle:
    """Sums up what a consumer was throttled. Written by the poll thread alone."""

    def __init__(self, clock: Callable[[], float], emit: Callable[[Event], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._until_s = float("-inf")
        # Over all brokers and kinds of requests since the start; brokers throttle side by side.
        self.total_s = 0.0

    def on_throttle(self, event: ThrottleEvent) -> None:
        """Take what a broker's answer said; librdkafka tells of a zero once, after the last that was none."""
        if event.throttle_time <= 0:
            return
        self.total_s += event.throttle_time
        self._until_s = max(self._until_s, self._clock() + event.throttle_time)
        self._emit(Throttled(event.broker_name, event.throttle_time))

    @property
    def is_recent(self) -> bool:
        """Whether a broker throttles, or did so a moment ago."""
        return self._clock() < self._until_s + AFTERMATH_S
