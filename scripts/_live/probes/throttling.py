"""More than the namespace takes: throttle times, slow answers or errors, whatever slows a producer down."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from _live.probe import DOCS, Observed, Probe, noted, ok
from _live.waits import FLOOD_S

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, ThrottleEvent

    from _live.site import Site

RECORD_BYTES = 8_000
BYTES_PER_S_MAX = 5_000_000
FLUSH_S = 60.0


class _Sent:
    """What became of the records; called in `poll` and `flush`."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.errors: Counter[str] = Counter()
        self.throttled_s: list[float] = []

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take one answer."""
        if error is None:
            self.latencies_s.append(message.latency() or 0.0)
        else:
            self.errors[error.name()] += 1

    def throttled(self, event: ThrottleEvent) -> None:
        """Take one throttle time."""
        self.throttled_s.append(event.throttle_time)


def throttling(site: Site) -> Observed:
    """Send for a while at five times what one throughput unit takes."""
    sent = _Sent()
    producer = site.producer({"linger.ms": 5, "statistics.interval.ms": 0}, throttle_cb=sent.throttled)
    began_s, count = time.monotonic(), 0
    while (passed_s := time.monotonic() - began_s) < site.waits.flood_s and not site.is_over.is_set():
        if count * RECORD_BYTES < passed_s * BYTES_PER_S_MAX:
            try:
                producer.produce(site.topic, os.urandom(RECORD_BYTES), on_delivery=sent.delivered)
                count += 1
            except BufferError:
                producer.poll(0.05)
        producer.poll(0.001)
    producer.flush(FLUSH_S)
    return _judged(sent, count, time.monotonic() - began_s)


def _judged(sent: _Sent, count: int, took_s: float) -> Observed:
    latencies = sorted(sent.latencies_s) or [0.0]
    rate = len(sent.latencies_s) * RECORD_BYTES / took_s / 1e6
    facts: dict[str, Any] = {
        "sent": count,
        "accepted_mb_per_s": round(rate, 2),
        "latency_median_s": round(latencies[len(latencies) // 2], 3),
        "latency_max_s": round(latencies[-1], 3),
        "throttle_answers": len(sent.throttled_s),
        "throttle_max_s": round(max(sent.throttled_s, default=0.0), 3),
        "errors": dict(sent.errors),
    }
    text = (
        f"{facts['accepted_mb_per_s']} MB/s accepted, answers after {facts['latency_median_s']} s, at most "
    )
    text += f"{facts['latency_max_s']} s"
    if sent.throttled_s:
        return ok(f"throttle times up to {facts['throttle_max_s']} s: {text}", **facts)
    if sent.errors:
        return noted(f"no throttle time, but errors ({', '.join(sent.errors)}): {text}", **facts)
    return noted(f"no throttle time: {text}. Has the namespace more than one throughput unit?", **facts)


PROBES = (
    Probe(
        name="throttling",
        documented="Above 1 MB/s for each throughput unit answers are delayed and show by how much; records "
        "that would wait too long are refused",
        link=f"{DOCS}/apache-kafka-troubleshooting-guide",
        function=throttling,
        expected_s=FLOOD_S + 15.0,
        limit_s=FLOOD_S + FLUSH_S + 20.0,
        permission="--throttle",
        records=int(FLOOD_S * BYTES_PER_S_MAX / RECORD_BYTES),
        kilobytes=int(FLOOD_S * BYTES_PER_S_MAX / 1000),
    ),
)
