"""The largest record that is accepted, how a larger one is refused, and compression."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from _live.probe import CLIENT_SETTINGS, OVERVIEW, Observed, Probe, differs, noted, ok
from ehkafka.endpoint.properties.limits import (
    DEDICATED_EVENT_BYTES_MAX,
    LETTER_BYTES_MAX,
    PRODUCE_REQUEST_BYTES_BELOW,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from _live.site import Site

ANSWER_S = 25.0
# Key, headers and the batch's own bytes are counted by the service, too.
LARGEST_BYTES = LETTER_BYTES_MAX - 512
TOO_LARGE_BYTES = PRODUCE_REQUEST_BYTES_BELOW + 16_384


def sizes(site: Site) -> Observed:
    """Send one just below the limit and one above it."""
    within = _sent(site, LARGEST_BYTES)
    beyond = _sent(site, TOO_LARGE_BYTES)
    facts = {"within": {"bytes": LARGEST_BYTES, **within}, "beyond": {"bytes": TOO_LARGE_BYTES, **beyond}}
    if within["error"]:
        return differs(f"{LARGEST_BYTES:,} bytes are refused: {within['error']}", **facts)
    text = f"{LARGEST_BYTES:,} bytes are accepted in {within['s']} s"
    if beyond["error"]:
        return ok(
            f"{text}; {TOO_LARGE_BYTES:,} are refused after {beyond['s']} s: {beyond['error']}", **facts
        )
    text += f"; {TOO_LARGE_BYTES:,} as well"
    return ok(text, **facts) if site.given.tier == "dedicated" else differs(text, **facts)


def gzip(site: Site) -> Observed:
    """Send compressed records."""
    seen = _sent(site, 10_000, {"compression.type": "gzip"}, value=b"x" * 10_000)
    text = f"refused: {seen['error']}" if seen["error"] else "a compressed batch is accepted"
    is_refused, tier = bool(seen["error"]), site.given.tier
    if tier is None:
        return noted(text, **seen)
    return ok(text, **seen) if is_refused == (tier == "standard") else differs(text, **seen)


def _sent(
    site: Site, size: int, overrides: dict[str, Any] | None = None, *, value: bytes | None = None
) -> dict[str, Any]:
    answers: list[KafkaError | None] = []
    reported: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        answers.append(error)

    properties = {
        "message.max.bytes": DEDICATED_EVENT_BYTES_MAX,
        # The client tries again when the service closes the connection; a few attempts show that.
        "message.timeout.ms": int(ANSWER_S * 800),
        "linger.ms": 0,
        **(overrides or {}),
    }
    producer = site.producer(properties, error_cb=reported.append)
    began_s = time.monotonic()
    # Random bytes: nothing on the way can make them smaller.
    producer.produce(site.topic, value or os.urandom(size), on_delivery=delivered)
    try:
        producer.flush(ANSWER_S)
    except KafkaException as failure:  # a fatal error of an idempotent producer
        answers.append(failure.args[0])
    error = answers[0] if answers else None
    name = None if answers and error is None else error.name() if error is not None else "no answer"
    return {
        "error": name,
        "s": round(time.monotonic() - began_s, 2),
        "reported": sorted({one.name() for one in reported}),
    }


PROBES = (
    Probe(
        name="sizes",
        documented="The service closes connections on produce requests of 1,046,528 bytes or more; 20 MB on "
        "Dedicated",
        link=CLIENT_SETTINGS,
        function=sizes,
        expected_s=25.0,
        limit_s=80.0,
        records=2,
        kilobytes=2100,
    ),
    Probe(
        name="gzip",
        documented="gzip on Premium and Dedicated only",
        link=OVERVIEW,
        function=gzip,
        expected_s=5.0,
        records=1,
        kilobytes=10,
    ),
)
