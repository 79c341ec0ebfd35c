"""Where a query's partitions begin, and what is done about a begin that its log does not hold or never held.

On the driver, in the thread that starts the query; asks the broker, for a bounded time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError, OffsetGapError
from ehkafka.positions.gap import AnotherLog, Gap, go_on_at
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.positions.witness import READ_S
from ehkafka.ranges.anew import made_anew, records_replaced
from ehkafka.wording import ended
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.intake.context import IntakeContext
    from ehkafka.positions.finder import Begin, IsDisproved
    from ehkafka.positions.gap import LogBounds
    from ehkafka.positions.log_asker import LogAsker
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition

    Logs = Mapping[TopicPartition, LogBounds]

# A reading begins with a connection.
_MARGIN_S = 1.0


def logs_of(consumer: Consumer, partitions: Collection[TopicPartition], timeout_s: float) -> Logs:
    """Return where logs begin and end. Raises `EndpointError`."""
    try:
        return log_bounds(consumer, partitions, timeout_s) if partitions else {}
    except KafkaException as error:
        text = describe_error(error.args[0])
        raise EndpointError(
            f"The broker did not report the starts and ends of the logs: {ended(text)} Start again when "
            f"the broker answers."
        ) from error


def offsets_of(
    begins: Sequence[Begin], logs: Logs, known_topics: Collection[str]
) -> dict[TopicPartition, int]:
    """Return the offset of each.

    `known_topics` were read before: a partition of theirs without a commit has come since, or its commit has
    expired. It begins with its log, for `start=latest` would skip what it got while nothing ran.
    """
    known = {*known_topics, *(one.partition.topic for one in begins if one.committed is not None)}
    return {
        one.partition: logs[one.partition].start if _with_its_log(one, known) else one.offset
        for one in begins
    }


def _with_its_log(one: Begin, known: Collection[str]) -> bool:
    if one.offset == OFFSET_BEGINNING:
        return True
    return one.committed is None and not one.is_mirrored and one.partition.topic in known


def inside_the_logs(
    starts: Mapping[TopicPartition, int], logs: Logs, context: IntakeContext, *, has_checkpoint: bool
) -> dict[TopicPartition, int]:
    """Return where to begin, by `on_out_of_range` where the log does not hold it. Raises `OffsetGapError`.

    Over a checkpoint Spark's source passes a gap over by itself, and the group is not to be ahead of it; only
    a log that ends before the checkpoint was recreated, and is read from its beginning.
    """
    action = context.settings.on_out_of_range
    gone = sorted(set(starts) - set(logs))
    if gone and action == "stop":  # else Spark's source warns of it
        raise OffsetGapError(
            f"The checkpoint contains {names(gone)}, which no longer exist: the topic was recreated with "
            f"fewer partitions. {_step(has_checkpoint=True)}"
        )
    found = {partition: offset for partition, offset in starts.items() if partition in logs}
    for partition, offset in tuple(found.items()):
        gap = Gap(partition, offset, logs[partition])
        if gap.log.holds(offset):
            continue
        resume_at = go_on_at(gap, action, context.emit, context.count)
        if resume_at is None:
            raise OffsetGapError(f"{gap.text()} {_step(has_checkpoint=has_checkpoint)}")
        if not has_checkpoint or resume_at < offset:
            found[partition] = resume_at
    return found


def in_new_logs(
    positions: Mapping[TopicPartition, int],
    reasons: Mapping[TopicPartition, str],
    logs: Logs,
    context: IntakeContext,
    *,
    reported: Collection[TopicPartition],
) -> dict[TopicPartition, int]:
    """Return where those begin whose checkpoint is of another log, for `reasons`; `reported` of whom it was.

    Spark's source notices it by itself and reads the new log from its beginning; here the group is taken
    there. Raises `OffsetGapError` by `on_out_of_range`.
    """
    action, found = context.settings.on_out_of_range, {}
    for partition, reason in sorted(reasons.items()):
        another = AnotherLog(partition, positions[partition], reason, logs[partition])
        if partition not in reported:
            go_on_at(another, action, context.emit, context.count)
        if another.log.resume_at(action) is None:
            raise another.error(_step(has_checkpoint=True))
        found[partition] = logs[partition].start
    return found


def disproved(
    by_ids: IsDisproved, asker: LogAsker, facts: Mapping[TopicPartition, LogFacts]
) -> dict[TopicPartition, str]:
    """Return which positions are of another log, and what tells: a topic's id, or a record where it has none.

    One partition tells of its whole topic: the others' positions belong to the old one as well. What is not
    read in time is not disproved. Raises `EndpointError`.
    """
    unnamed = {p: one for p, one in facts.items() if one.witness is not None and one.topic_id is None}
    question = asker.ask(unnamed) if unnamed else None
    found = dict(by_ids(facts))
    if question is None:
        return found
    question.done.wait(READ_S + _MARGIN_S)
    if isinstance(question.error, KafkaException):
        raise EndpointError(
            "The broker did not report whether the topics are still the same: "
            f"{ended(describe_error(question.error.args[0]))} Start again when the broker answers."
        ) from question.error
    if question.error is not None:
        raise question.error
    witnesses = {p: one.witness for p, one in unnamed.items() if one.witness is not None}
    replaced = made_anew(witnesses, question.answer.readings)
    by_records = {
        p: replaced[p.topic].get(p) or records_replaced(p.topic, replaced[p.topic])
        for p in facts
        if p.topic in replaced
    }
    return by_records | found


def _step(*, has_checkpoint: bool) -> str:
    anew = ", and start with new_checkpoint=True or --new-checkpoint" if has_checkpoint else ""
    return (
        "Nothing was skipped. To continue, move the group to where you want to resume (ehkafka offsets reset)"
        f"{anew}, start a new group, or choose on_out_of_range='earliest'."
    )
