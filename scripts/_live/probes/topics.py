"""Topics by Kafka's requests: creating them, their partitions, and more of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions

from _live.probe import DOCS, QUOTAS, NotTried, Observed, Probe, differs, noted, ok
from _live.site import REQUEST_S
from ehkafka.endpoint.client import describe_error

if TYPE_CHECKING:
    from _live.site import Site

PARTITIONS = 2
STANDARD_PARTITIONS_MAX = 32


def topics(site: Site) -> Observed:
    """Have a topic for the other probes."""
    if site.given.own_topic is not None:
        count = site.partitions(site.given.own_topic)
        if not count:
            return differs("the topic of --topic is not there, or cannot be seen with this policy")
        site.topic = site.given.own_topic
        return noted(f"the topic of --topic is used, with {count} partitions", partitions=count)
    try:
        site.topic = site.create_topic("records", PARTITIONS)
    except KafkaException as error:
        reason = describe_error(error.args[0])
        return differs(
            f"a topic cannot be created by Kafka: {reason} Does the policy have Manage? Otherwise create an "
            "event hub and give --topic"
        )
    return ok(f"a topic with {PARTITIONS} partitions was created and has its leaders")


def partition_count(site: Site) -> Observed:
    """Cross the limit of Standard by one partition."""
    _needs_manage(site)
    count = STANDARD_PARTITIONS_MAX + 1
    try:
        site.create_topic("wide", count)
    except KafkaException as error:
        text = f"{count} partitions are refused: {describe_error(error.args[0])}"
        return differs(text) if site.given.tier in ("premium", "dedicated") else ok(text)
    text = f"a topic with {count} partitions was created"
    if site.given.tier == "standard":
        return differs(text)
    if site.given.tier is None:
        return noted(f"{text}: the namespace is not of the Standard tier, if the limit holds")
    return ok(text)


def more_partitions(site: Site) -> Observed:
    """Add one."""
    _needs_manage(site)
    topic = site.create_topic("growing", 1)
    try:
        answer = site.admin().create_partitions([NewPartitions(topic, 2)], request_timeout=REQUEST_S)
        answer[topic].result(REQUEST_S)
    except KafkaException as error:
        text = f"a partition cannot be added: {describe_error(error.args[0])}"
        return differs(text) if site.given.tier in ("premium", "dedicated") else ok(text)
    if not site.wait(lambda: site.partitions(topic) == 2, REQUEST_S):
        return differs("adding a partition was accepted, but it does not show")
    text = "a partition was added"
    return (
        differs(text) if site.given.tier == "standard" else noted(text) if not site.given.tier else ok(text)
    )


def _needs_manage(site: Site) -> None:
    if site.given.own_topic is not None:
        raise NotTried("with --topic no topic is created")


PROBES = (
    Probe(
        name="topics",
        documented="An event hub is a topic; creating one needs the right Manage",
        link=f"{DOCS}/apache-kafka-frequently-asked-questions",
        function=topics,
        expected_s=5.0,
        needs=("login",),
        creates=f"a topic with {PARTITIONS} partitions",
    ),
    Probe(
        name="partitions",
        documented="At most 32 partitions of an event hub on Standard, 100 on Premium, 1024 on Dedicated",
        link=QUOTAS,
        function=partition_count,
        expected_s=6.0,
        creates=f"a topic with {STANDARD_PARTITIONS_MAX + 1} partitions",
    ),
    Probe(
        name="growth",
        documented="Partitions can be added on Premium and Dedicated only",
        link=f"{DOCS}/dynamically-add-partitions",
        function=more_partitions,
        expected_s=6.0,
        creates="a topic with 1 partition, then 2",
    ),
)
