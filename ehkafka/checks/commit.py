"""Step `commit`: whether this credential can commit, and the commit's metadata comes back as it was.

The only step that writes. It commits in `OWN_GROUP`, a group that nobody consumes with, so that no position
of the user's moves and no live group is disturbed; always the same name, because Event Hubs counts groups.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.checks.group import NOT_YET, read_commits
from ehkafka.checks.inspection import CLOSE_S, close_within, trouble
from ehkafka.checks.target import OWN_GROUP, as_own_group
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.checks.inspection import Inspection

# Of the kind that the engine writes, and the same every time: two checks at once must not see each other.
METADATA = "ehkafka check: nobody consumes with this group"
_PAUSE_S = 0.005


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Commit once in our own group and read it back."""
    wanted = _commit(inspection)
    answers: list[KafkaError | None] = []
    consumer = inspection.open(
        as_own_group(inspection.properties),
        on_commit=lambda error, _partitions: answers.append(error),
    )
    try:
        took_s = _committed(inspection, consumer, wanted, answers)
        kept = read_commits(inspection, consumer, [KafkaPartition(wanted.topic, wanted.partition)])[0]
    finally:
        close_within(consumer, CLOSE_S)
    if kept.offset != wanted.offset:
        raise Trouble(
            f"committed {wanted.offset} in group {OWN_GROUP}, but {kept.offset} was read back",
            "Try again; if it stays so, the service does not keep commits: report it to its operator.",
        )
    intact = kept.metadata == METADATA
    said = "came back intact" if intact else "did not come back as it was, so it cannot carry finished ranges"
    return Finding(
        f"in {took_s * 1000:.0f} ms, in the group {OWN_GROUP}; metadata {said}",
        {"commit_s": round(took_s, 4), "metadata_intact": intact, "group": OWN_GROUP},
    )


def _commit(inspection: Inspection) -> KafkaPartition:
    """Return what to commit: the start of the first log that is known."""
    for partition, log in inspection.logs.items():
        return KafkaPartition(*partition, log.start, METADATA)
    raise NotMeasured("no partition to commit on; add --topic")


def _committed(
    inspection: Inspection, consumer: Consumer, wanted: KafkaPartition, answers: list[KafkaError | None]
) -> float:
    """Commit until it is acknowledged; return how long the last try took."""
    while True:
        began_s = time.monotonic()
        answer = _answer(inspection, consumer, wanted, answers)
        if answer is None:
            return time.monotonic() - began_s
        if answer.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise NotMeasured(f"the credential may not use the group {OWN_GROUP}, so it was not tried")
        if answer.code() == KafkaError.UNKNOWN_MEMBER_ID:
            raise NotMeasured(
                f"somebody consumes with the group {OWN_GROUP}, which is ours: use another there"
            )
        if answer.code() not in NOT_YET or inspection.is_over:
            raise trouble("the commit was refused", answer)
        inspection.listen(consumer, _PAUSE_S)


def _answer(
    inspection: Inspection, consumer: Consumer, wanted: KafkaPartition, answers: list[KafkaError | None]
) -> KafkaError | None:
    # Asynchronous: librdkafka's synchronous commit has no time-out.
    answers.clear()
    try:
        consumer.commit(offsets=[wanted], asynchronous=True)
    except KafkaException as error:
        at_once: KafkaError = error.args[0]
        return at_once
    while not answers:
        if inspection.is_over:
            raise Trouble(
                f"no answer within {seconds(inspection.timeout_s)}",
                "The group's coordinator does not answer, or throttles: look at its health and quota.",
            )
        inspection.listen(consumer, _PAUSE_S)
        if (refusal := inspection.heard_of(KafkaError.GROUP_AUTHORIZATION_FAILED)) is not None:
            return refusal
    return answers[0]
