"""Which refusals mean "later": the broker throttles, and says nothing of the message. Pure.

Event Hubs holds an answer back while a namespace is above its throughput, and refuses with `POLICY_VIOLATION`
what it would have to hold back for longer than the client waits ("Event Hubs docs, troubleshooting guide for
Apache Kafka, server busy"). librdkafka takes both for the end of the message. Elsewhere `POLICY_VIOLATION` is
what it says.
"""

from __future__ import annotations

from typing import Final

THROTTLING_QUOTA_EXCEEDED: Final = 89
POLICY_VIOLATION: Final = 44

AGAIN_FIRST_S: Final = 0.5
AGAIN_MAX_S: Final = 30.0


def busy_codes(*, is_event_hubs: bool) -> frozenset[int]:
    """Return the errors of an endpoint, by Kafka's number, that are tried again and never count."""
    return frozenset({THROTTLING_QUOTA_EXCEEDED, *([POLICY_VIOLATION] if is_event_hubs else [])})


def again_s(tries: int) -> float:
    """Return how long to wait after so many such refusals in a row."""
    return min(AGAIN_MAX_S, AGAIN_FIRST_S * 2 ** min(tries - 1, 10))
