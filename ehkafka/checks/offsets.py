"""Step `offsets`: the log's bounds, what the group has committed within them, and its lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.checks.inspection import trouble
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records import TopicPartition
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection
    from ehkafka.positions.gap import LogBounds

_NAMED = 5


def look(inspection: Inspection, subject: str | None) -> Finding:
    """Ask the partitions' leaders where their logs begin and end."""
    if subject is None:
        raise NotMeasured("no topic named")
    assert inspection.cluster is not None
    partitions = [TopicPartition(subject, n) for n in sorted(inspection.cluster.topics[subject].partitions)]
    try:
        logs = log_bounds(inspection.consumer(), partitions, inspection.remaining_s)
    except KafkaException as error:
        raise _unreadable(inspection, subject, error) from None
    inspection.logs |= logs
    rows = [_row(inspection, partition, log) for partition, log in logs.items()]
    _refuse_outside(rows)
    return _described(rows)


def _unreadable(inspection: Inspection, topic: str, error: KafkaException) -> Trouble:
    """Name the leaders: what a broker calls itself may be an address that only its own network knows."""
    cluster = inspection.cluster
    assert cluster is not None
    numbers = {one.leader for one in cluster.topics[topic].partitions.values()}
    leaders = [
        f"{cluster.brokers[n].host}:{cluster.brokers[n].port}" for n in sorted(numbers & set(cluster.brokers))
    ]
    found = trouble("the leaders do not tell the log's bounds", error)
    found.fix += (
        f" The leaders call themselves {', '.join(leaders[:_NAMED])}: can these be reached from here?"
    )
    return found


def _row(inspection: Inspection, partition: TopicPartition, log: LogBounds) -> dict[str, Any]:
    found = inspection.committed.get(partition)
    committed = None if found is None else found.offset
    lag = None if committed is None else max(0, log.end - committed)
    return {
        "partition": partition.partition,
        "start": log.start,
        "end": log.end,
        "committed": committed,
        "lag": lag,
    }


def _refuse_outside(rows: list[dict[str, Any]]) -> None:
    committed = [row for row in rows if row["committed"] is not None]
    ahead = [row for row in committed if row["committed"] > row["end"]]
    behind = [row for row in committed if row["committed"] < row["start"]]
    facts = {"partitions": rows}
    if ahead:
        raise Trouble(
            f"the group's commit is beyond the end of the log: {_named(ahead)}",
            "The topic was made anew, or the namespace failed over: decide where the group goes on, and set"
            " its offsets or use a new group.",
            facts=facts,
        )
    if behind:
        gone = sum(row["start"] - row["committed"] for row in behind)
        raise Trouble(
            f"the group's commit is before the start of the log: {_named(behind)}; {gone} offsets are gone",
            "Retention was quicker than the group: decide where it goes on, and set its offsets or use a new"
            " group.",
            facts=facts,
        )


def _named(rows: list[dict[str, Any]]) -> str:
    shown = [f"partition {r['partition']} at {r['committed']} (log {r['start']}–{r['end']})" for r in rows]
    return ", ".join(shown[:_NAMED]) + (" …" if len(shown) > _NAMED else "")


def _described(rows: list[dict[str, Any]]) -> Finding:
    held = sum(row["end"] - row["start"] for row in rows)
    lags = [(row["lag"], row["partition"]) for row in rows if row["lag"] is not None]
    text = f"the log spans {counted(held, 'offset')}"
    facts: dict[str, Any] = {"partitions": rows, "offsets": held, "lag": None}
    if lags:
        facts["lag"] = total = sum(lag for lag, _partition in lags)
        most, where = max(lags)
        text += f"; the group's commits lie within it, lag {total}"
        if total:
            text += f" (most: {most} on partition {where})"
    return Finding(text, facts)
