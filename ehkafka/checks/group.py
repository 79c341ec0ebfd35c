"""Step `group`: whether this credential can read the group's committed offsets. It never joins the group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.finding import Finding, NotMeasured
from ehkafka.checks.inspection import trouble
from ehkafka.endpoint.properties.limits import GROUP_NAME_CHARACTERS_MAX
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.checks.inspection import Inspection

NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001 - a slice of the step's time, not all of it
}
"""What is worth another try: a coordinator that has just been made or moved answers so."""

FIRST_SLICE_S = 0.5
PAUSE_S = 0.02


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Read what the group has committed on every partition found."""
    group = inspection.target.group
    if group is None:
        raise NotMeasured("none named; add --group")
    asked = _partitions(inspection)
    if not asked:
        raise NotMeasured("no topic to look at its commits on; add --topic")
    found = read_commits(inspection, inspection.consumer(), asked)
    committed = [one for one in found if one.offset >= 0]
    inspection.committed = {TopicPartition(one.topic, one.partition): one for one in committed}
    limit = f" ({len(group)} of {GROUP_NAME_CHARACTERS_MAX} characters)"
    name = group + (limit if inspection.target.endpoint.is_event_hubs else "")
    facts = {"committed_partitions": len(committed), "partitions": len(asked)}
    if not committed:
        return Finding(f"{name}: no commits here yet, so start= decides where it begins", facts)
    return Finding(f"{name}: commits on {len(committed)} of {len(asked)} partitions", facts)


def read_commits(
    inspection: Inspection, consumer: Consumer, asked: list[KafkaPartition]
) -> list[KafkaPartition]:
    """Return the commits of the consumer's group, an entry for each partition; raises `Trouble`."""
    slice_s = FIRST_SLICE_S
    while True:
        try:
            found = consumer.committed(asked, timeout=min(slice_s, inspection.remaining_s))
            refusals = [one.error for one in found if one.error is not None]
            if not refusals:
                return found
            error = refusals[0]
        except KafkaException as failure:
            error = failure.args[0]
        inspection.listen(consumer, PAUSE_S)
        # Who may not even find the coordinator is told so beside the request, which waits on.
        error = inspection.heard_of(KafkaError.GROUP_AUTHORIZATION_FAILED) or error
        if error.code() not in NOT_YET or inspection.is_over:
            raise trouble("the committed offsets cannot be read", error)
        slice_s *= 2


def _partitions(inspection: Inspection) -> list[KafkaPartition]:
    assert inspection.cluster is not None
    topics = inspection.cluster.topics
    named = [topic for topic in inspection.target.topics if topic in topics and not topics[topic].error]
    return [KafkaPartition(topic, number) for topic in named for number in sorted(topics[topic].partitions)]
