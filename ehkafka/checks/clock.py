"""Step `clock`: what can honestly be said about this machine's clock.

Kafka has no request that tells a broker's time. But a stamp that the broker or the issuer of tokens made
cannot lie in our future: where one does, our clock is behind. A recent one also bounds how far ahead it
can be. Whether the certificate is valid now is the step `tls`'s to say.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.records import moment_of

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection

# What a stamp may be ahead without a word: clocks are kept to this, and tokens are cut to whole seconds.
TOLERANCE_S = 2.0
# The last record of so many partitions is read; one by the newest is enough, and which that is, is unknown.
PARTITIONS_READ = 16
READ_S = 3.0


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Compare our clock with stamps that others made."""
    stamps = {
        "the newest record": _newest_record(inspection),
        "the token": inspection.token_issued_at,
    }
    known = {who: moment for who, moment in stamps.items() if moment is not None}
    if not known:
        raise NotMeasured("a broker tells no time, and no record here was stamped by it")
    now = datetime.now(UTC)
    ages = {who: (now - moment).total_seconds() for who, moment in known.items()}
    who, age_s = min(ages.items(), key=lambda item: item[1])
    facts = {"newest_stamp_age_s": round(age_s, 3)}
    if age_s < -TOLERANCE_S:
        raise Trouble(
            f"this machine's clock is at least {-age_s:.0f} s behind: {who} was stamped in its future",
            "Set it by NTP: start times, tokens and ages are wrong until then.",
            facts=facts,
        )
    return Finding(
        f"at most {max(0.0, age_s):.0f} s ahead, by {who}; whether it is behind cannot be seen",
        facts,
    )


def _newest_record(inspection: Inspection) -> datetime | None:
    """Return the newest stamp among last records, if brokers stamp them on this topic."""
    ends = [
        KafkaPartition(*partition, log.end - 1)
        for partition, log in inspection.logs.items()
        if log.end > log.start
    ]
    del ends[PARTITIONS_READ:]
    if not ends:
        return None
    consumer = inspection.consumer()
    stamps: list[int] = []
    unread = {(one.topic, one.partition) for one in ends}
    # Assigned by hand, without a subscription: this joins nothing and commits nothing.
    consumer.assign(ends)
    give_up_s = time.monotonic() + min(READ_S, inspection.remaining_s)
    try:
        while unread and time.monotonic() < give_up_s:
            # One at a time: a batch would wait for records that are not to come.
            for message in consumer.consume(1, 0.1):
                kind, milliseconds = message.timestamp()
                if message.error() is None and kind == TIMESTAMP_LOG_APPEND_TIME:
                    stamps.append(milliseconds)
                unread.discard((message.topic(), message.partition()))
    finally:
        consumer.unassign()
    return moment_of(TIMESTAMP_LOG_APPEND_TIME, max(stamps)) if stamps else None
