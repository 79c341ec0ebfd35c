"""Step `topic`: whether the topic is there, and this credential may use it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.checks.inspection import trouble

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection

_SHOWN = 8


def look(inspection: Inspection, subject: str | None) -> Finding:
    """Find the topic in the cluster's metadata."""
    if subject is None:
        raise NotMeasured("none named; add --topic")
    assert inspection.cluster is not None
    found = inspection.cluster.topics.get(subject)
    if found is None:
        raise _missing(inspection, subject)
    if found.error is not None:
        raise trouble("refused", found.error)
    return Finding("is there")


def _missing(inspection: Inspection, topic: str) -> Trouble:
    """Tell a topic that is not there from one that is hidden: a list leaves out what may not be seen."""
    # Asked by its offsets and not by its name alone, which might make it.
    try:
        inspection.consumer().get_watermark_offsets(KafkaPartition(topic, 0), timeout=inspection.remaining_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return trouble("refused", error)
    assert inspection.cluster is not None
    there = sorted(name for name in inspection.cluster.topics if not name.startswith("__"))
    close = difflib.get_close_matches(topic, there, n=3, cutoff=0.6)
    if close:
        return Trouble(
            "there is no such topic here",
            f"Did you mean {' or '.join(map(repr, close))}? Correct the name, or create it.",
            facts={"close": close},
        )
    shown = ", ".join(there[:_SHOWN]) + (" …" if len(there) > _SHOWN else "") if there else "none"
    return Trouble(
        "there is no such topic here, or the credential may not see it",
        f"Create it, correct the name, or connect to the namespace that has it. Topics there: {shown}.",
    )
