"""`ehkafka topics`: the topics of a broker, with their size in partitions and records. On the main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.lag import age_of
from ehkafka.cli.options import OfEndpoint, OneTopic
from ehkafka.cli.output import columns, put_json, put_text
from ehkafka.cli.target import cluster_of
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka.offsets.cluster import TopicView

HEADERS: Final = ("TOPIC", "PARTITIONS", "RECORDS", "RETENTION", "")

cli = CommandLine()


@cli.command("topics")
def topics(*, topic: OneTopic = None, of: OfEndpoint) -> None:
    r"""List topics with their partitions, records and retention.

    RECORDS counts the offsets between the start and the end of each log: compacted topics and topics with
    transactions have fewer records. RETENTION is – if the broker does not report it. Kafka's internal topics
    are left out. The command joins no group and changes nothing.

    \b
    Examples:
      ehkafka topics --endpoint localhost:9092
      ehkafka topics --topic orders --json

    """
    with cluster_of(topic, of) as cluster:
        found = cluster.topics()
    if of.as_json:
        put_json({"endpoint": cluster.target.endpoint.name, "topics": [_as_dict(one) for one in found]})
        return
    rows = [(one.name, one.partitions, one.offsets, _retention(one), one.problem) for one in found]
    put_text(f"{columns(HEADERS, rows)}\n\n{counted(len(found), 'topic')}")


def _as_dict(topic: TopicView) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "offsets": topic.offsets,
        "retention_ms": topic.retention_ms,
        "cleanup_policy": topic.cleanup or None,
        "problem": topic.problem or None,
    }


def _retention(topic: TopicView) -> str | None:
    """Return how long a topic keeps its records: `7 d`, `compacted`, `compacted, 7 d` or `unlimited`."""
    if topic.retention_ms is None:
        return None
    kept = "unlimited" if topic.retention_ms < 0 else age_of(topic.retention_ms / 1000)
    texts = {"compact": "compacted", "delete": kept}
    return ", ".join(texts.get(one.strip(), one) for one in sorted((topic.cleanup or "delete").split(",")))
