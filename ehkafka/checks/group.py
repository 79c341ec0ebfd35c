"""What the group has, and whether it can commit: the steps `group`, `offsets` and `commit`.

None joins the group.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.broker import LEADERLESS_FIX
from ehkafka.checks.inspection import CLOSE_S, Overdue, close_within, problem
from ehkafka.checks.result import Finding, NotMeasured, Problem
from ehkafka.checks.target import OWN_GROUP, as_own_group
from ehkafka.endpoint.properties.limits import GROUP_NAME_CHARACTERS_MAX
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.progress.commit_transports import OutsideCommits
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

    from ehkafka.checks.inspection import Inspection
    from ehkafka.positions.gap import LogBounds

NOT_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    ClientCode.WAIT_COORD,
    ClientCode.TIMED_OUT,
}
"""What is worth another try: a coordinator that has just been made or moved answers so."""

FIRST_SLICE_S = 0.5
PAUSE_S = 0.02
_PARTITIONS_NAMED = 5
# Of the kind that the engine writes, and the same every time: two checks at once must not see each other.
METADATA = "ehkafka check: no client consumes with this group"
COMMIT_PAUSE_S = 0.005


def group(inspection: Inspection, _subject: str | None) -> Finding:
    """Read what the group has committed on every partition found."""
    wanted = inspection.target.group
    if wanted is None:
        raise NotMeasured("no group is named: add --group")
    asked = _partitions(inspection)
    if not asked:
        raise NotMeasured("a group has commits on topics, but no topic is named: add --topic")
    found = read_commits(inspection, inspection.consumer(), asked)
    committed = [one for one in found if one.offset >= 0]
    inspection.committed = {TopicPartition(one.topic, one.partition): one for one in committed}
    limit = f" ({len(wanted)} of {GROUP_NAME_CHARACTERS_MAX} characters)"
    name = wanted + (limit if inspection.target.endpoint.is_event_hubs else "")
    facts = {"committed_partitions": len(committed), "partitions": len(asked)}
    if not committed:
        return Finding(f"{name}: no commits yet, so the app begins to read at start=", facts)
    return Finding(f"{name}: commits on {len(committed)} of {len(asked)} partitions", facts)


def read_commits(
    inspection: Inspection, consumer: Consumer, asked: list[KafkaPartition]
) -> list[KafkaPartition]:
    """Return the commits of the consumer's group, an entry for each partition; raises `Problem`."""
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
        # Who may not even find the coordinator learns it from the client's errors; the request waits on.
        error = inspection.client_error(KafkaError.GROUP_AUTHORIZATION_FAILED) or error
        if error.code() not in NOT_YET or inspection.is_over:
            raise problem("the committed offsets cannot be read", error)
        slice_s *= 2


def _partitions(inspection: Inspection) -> list[KafkaPartition]:
    assert inspection.cluster is not None
    topics = inspection.cluster.topics
    named = [topic for topic in inspection.target.topics if topic in topics and not topics[topic].error]
    return [KafkaPartition(topic, number) for topic in named for number in sorted(topics[topic].partitions)]


def offsets(inspection: Inspection, subject: str | None) -> Finding:
    """Ask the partitions' leaders where their logs begin and end."""
    if subject is None:
        raise NotMeasured("no topic named")
    logs = read_bounds(inspection, subject)
    inspection.logs |= logs
    rows = [_row(inspection, partition, log) for partition, log in logs.items()]
    _refuse_outside(rows)
    return _lag(rows)


def read_bounds(inspection: Inspection, topic: str) -> dict[TopicPartition, LogBounds]:
    """Return where the logs begin and end, asked of one leader after another; raises `Problem`."""
    cluster = inspection.cluster
    assert cluster is not None
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for number, partition in sorted(cluster.topics[topic].partitions.items()):
        by_leader[partition.leader].append(TopicPartition(topic, number))
    if orphans := by_leader.get(-1):
        text = f"no broker leads {names(orphans)}, so the start and end of their logs are not known"
        raise Problem(text, LEADERLESS_FIX)
    found: dict[TopicPartition, LogBounds] = {}
    for leader, partitions in by_leader.items():
        try:
            found |= log_bounds(inspection.consumer(), partitions, inspection.remaining_s)
        except KafkaException as error:
            there = cluster.brokers.get(leader)
            broker = f"broker {leader}" + (f" ({there.host}:{there.port})" if there else "")
            what = f"the first and last offsets of {names(partitions)}, led by {broker}, cannot be read"
            silent = problem(what, error)
            # It may be an address that only its own network knows.
            silent.fix += (
                " This is the address that the broker advertises: check that this machine reaches it."
            )
            raise silent from None
    return {partition: found[partition] for partition in sorted(found)}


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
        raise Problem(
            f"the group's commit is beyond the end of the log: {_named(ahead)}",
            "The topic was recreated, or the namespace failed over: set the group's offsets (ehkafka offsets"
            " reset), or use a new group.",
            facts=facts,
        )
    if behind:
        gone = sum(row["start"] - row["committed"] for row in behind)
        raise Problem(
            f"the group's commit is before the start of the log: {_named(behind)}; {gone} offsets are gone",
            "Retention deleted unread records: set the group's offsets, or use a new group.",
            facts=facts,
        )


def _named(rows: list[dict[str, Any]]) -> str:
    shown = [f"partition {r['partition']} at {r['committed']} (log {r['start']}–{r['end']})" for r in rows]
    return ", ".join(shown[:_PARTITIONS_NAMED]) + (" …" if len(shown) > _PARTITIONS_NAMED else "")


def _lag(rows: list[dict[str, Any]]) -> Finding:
    held = sum(row["end"] - row["start"] for row in rows)
    lags = [(row["lag"], row["partition"]) for row in rows if row["lag"] is not None]
    text = f"the log spans {counted(held, 'offset')}"
    facts: dict[str, Any] = {"partitions": rows, "offsets": held, "lag": None}
    if lags:
        facts["lag"] = total = sum(lag for lag, _partition in lags)
        most, where = max(lags)
        text += f"; the group's commits lie within the log, lag {total}"
        if total:
            text += f" (most: {most} on partition {where})"
    return Finding(text, facts)


def commit(inspection: Inspection, _subject: str | None) -> Finding:
    """Commit once and read it back: the only step that writes to the broker.

    It commits in `OWN_GROUP`, a group without consumers, so that no position of the user's moves and
    no live group is disturbed; always the same name, because Event Hubs counts groups.
    """
    wanted = _to_commit(inspection)
    with OutsideGroup(inspection, as_own_group(inspection.properties)) as outside:
        _commit(inspection, outside, wanted)
        kept = read_commits(inspection, outside.consumer, [KafkaPartition(wanted.topic, wanted.partition)])[0]
    if kept.offset != wanted.offset:
        raise Problem(
            f"committed {wanted.offset} in group {OWN_GROUP}, but {kept.offset} was read back",
            "Try again. If the error repeats, the service loses commits: report that to its operator.",
        )
    intact = kept.metadata == METADATA
    words = "came back intact" if intact else "came back changed, so commits cannot list finished records"
    return Finding(
        f"in {outside.took_s * 1000:.0f} ms, in the group {OWN_GROUP}; the commit's metadata {words}",
        {"commit_s": round(outside.took_s, 4), "metadata_intact": intact, "group": OWN_GROUP},
    )


def _to_commit(inspection: Inspection) -> KafkaPartition:
    """Return what to commit: the start of the first log that is known."""
    for partition, log in inspection.logs.items():
        return KafkaPartition(*partition, log.start, METADATA)
    raise NotMeasured("no partition is known for a test commit: add --topic")


def _commit(inspection: Inspection, outside: OutsideGroup, wanted: KafkaPartition) -> None:
    try:
        refusals = outside.commit(
            {TopicPartition(wanted.topic, wanted.partition): Position(0, wanted.offset, None, METADATA)}
        )
    except Overdue:
        raise Problem(
            f"no answer within {seconds(inspection.timeout_s)}",
            "The group's coordinator does not answer, or throttles: check the broker's health and quota.",
        ) from None
    for refusal in refusals.values():
        if refusal.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise NotMeasured(f"the credential has no permission for the group {OWN_GROUP}")
        if refusal.code() == KafkaError.UNKNOWN_MEMBER_ID:
            raise NotMeasured(
                f"another client consumes with the group {OWN_GROUP}, which ehkafka check needs: give that "
                f"client another group"
            )
        raise problem("the commit was refused", refusal)


class OutsideGroup:
    """Commits to a group without joining it, by a consumer of its own; a context manager."""

    def __init__(self, inspection: Inspection, properties: dict[str, Any]) -> None:
        self._inspection = inspection
        self._commits = OutsideCommits(self._listen)
        self.consumer = inspection.open(properties, on_commit=self._commits.on_commit)
        # How long the last try took.
        self.took_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        close_within(self.consumer, CLOSE_S)

    def commit(self, wanted: Mapping[TopicPartition, Position]) -> dict[int, KafkaError]:
        """Commit until waiting does not help any more; return what was refused then, by partition.

        Raises `Overdue` without an answer within the step's time.
        """
        while True:
            began_s = time.monotonic()
            answer = self._commits.ready(self.consumer, wanted)(None)
            assert answer is not None
            error, each = answer
            self.took_s = time.monotonic() - began_s
            refusals = {one.partition: one.error for one in each if one.error is not None}
            if error is not None and not refusals:
                refusals = {one.partition: error for one in wanted}
            waits = any(refusal.code() in NOT_YET for refusal in refusals.values())
            if not waits or self._inspection.is_over:
                return refusals
            self._inspection.listen(self.consumer, COMMIT_PAUSE_S)

    def _listen(self, consumer: Consumer, timeout_s: float) -> KafkaError | None:
        if self._inspection.is_over:
            raise Overdue("commit")
        self._inspection.listen(consumer, timeout_s)
        return self._inspection.client_error(KafkaError.GROUP_AUTHORIZATION_FAILED)
