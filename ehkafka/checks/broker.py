"""What the cluster has: the steps `topic` and `partitions`."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.inspection import problem
from ehkafka.checks.result import Finding, NotMeasured, Problem

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection

LEADERLESS_FIX = "Start the brokers that hold them, and check the cluster's health."
_TOPICS_SHOWN = 8


def topic(inspection: Inspection, subject: str | None) -> Finding:
    """Find the topic in the cluster's metadata."""
    if subject is None:
        raise NotMeasured("no topic is named: add --topic")
    assert inspection.cluster is not None
    found = inspection.cluster.topics.get(subject)
    if found is None:
        raise _missing(inspection, subject)
    if found.error is not None:
        raise problem("refused", found.error)
    return Finding("is there")


def _missing(inspection: Inspection, name: str) -> Problem:
    """Tell a topic that is not there from one that is hidden: a list leaves out what may not be seen."""
    # Asked by its offsets and not by its name alone, which might make it.
    try:
        inspection.consumer().get_watermark_offsets(KafkaPartition(name, 0), timeout=inspection.remaining_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return problem("refused", error)
    assert inspection.cluster is not None
    there = sorted(one for one in inspection.cluster.topics if not one.startswith("__"))
    close = difflib.get_close_matches(name, there, n=3, cutoff=0.6)
    if close:
        return Problem(
            "the broker has no such topic",
            f"Did you mean {' or '.join(map(repr, close))}? Correct the name, or create the topic.",
            facts={"close": close},
        )
    more = " …" if len(there) > _TOPICS_SHOWN else ""
    shown = ", ".join(there[:_TOPICS_SHOWN]) + more if there else "none"
    return Problem(
        "the broker has no such topic, or the credential has no access to the topic",
        f"Create the topic, correct its name, or connect to the namespace that has the topic. Topics on "
        f"this broker: {shown}.",
    )


def partitions(inspection: Inspection, subject: str | None) -> Finding:
    """Count them and their leaders."""
    if subject is None:
        raise NotMeasured("no topic named")
    assert inspection.cluster is not None
    found = inspection.cluster.topics[subject].partitions
    orphans = sorted(number for number, one in found.items() if one.leader < 0)
    leaders = {one.leader for one in found.values() if one.leader >= 0}
    facts = {"partitions": len(found), "without_leader": orphans}
    if orphans:
        raise Problem(
            f"{len(orphans)} of {len(found)} partitions have no leader: {', '.join(map(str, orphans[:10]))}",
            LEADERLESS_FIX,
            facts=facts,
        )
    if not found:
        raise Problem(
            "the topic has no partitions",
            "Wait until the broker has created partitions, or recreate the topic.",
            facts=facts,
        )
    brokers = "one broker" if len(leaders) == 1 else f"{len(leaders)} brokers"
    return Finding(f"{len(found)}, each with a leader, on {brokers}", facts)
