"""A compacted topic: by Kafka's own setting, with keys, a tombstone, and a record without a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from _live.probe import DOCS, NotTried, Observed, Probe, differs, noted, ok
from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from _live.site import Site


def compaction(site: Site) -> Observed:
    """Create one and write to it. When the service compacts cannot be waited for."""
    if site.given.own_topic is not None:
        raise NotTried("with --topic no topic is created")
    try:
        topic = site.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    except KafkaException as error:
        return differs(f"it cannot be created by Kafka: {describe_error(error.args[0])}")
    site.produce(topic, [(b"a", b"1"), (b"a", b"2"), (b"a", None)])
    text = "created with cleanup.policy=compact; records with a key and a tombstone are accepted"
    try:
        site.produce(topic, [(None, b"without a key")])
    except EhkafkaError as error:
        # What to do about it is for those who wanted it to work.
        first_sentence = str(error).partition(". ")[0]
        return ok(f"{text}; one without a key is refused: {first_sentence}")
    return noted(f"{text}; one without a key, too")


PROBES = (
    Probe(
        name="compaction",
        documented="Compacted event hubs on all tiers but Basic; a null value is a tombstone; the service "
        "decides when it compacts",
        link=f"{DOCS}/log-compaction",
        function=compaction,
        expected_s=8.0,
        limit_s=90.0,
        records=4,
        kilobytes=1,
        creates="a compacted topic",
    ),
)
