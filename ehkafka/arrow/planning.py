"""What the arguments of `read` mean on this topic, now: the offsets to read, and what its logs are known by.

Asks the broker, and waits for it. Reads no record but those by which logs are recognised.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.arrow.ends import Ends
from ehkafka.arrow.places import check_order, place_of
from ehkafka.ranges import begin
from ehkafka.ranges.anew import id_replaced, made_anew, records_replaced
from ehkafka.ranges.log import Log
from ehkafka.ranges.loss import Loss, logs_replaced, partitions_gone
from ehkafka.ranges.places import AtOffsets, AtWord

if TYPE_CHECKING:
    from ehkafka.arrow.options import ReadOptions
    from ehkafka.arrow.places import Where
    from ehkafka.ranges.offset_text import Positions, Witnesses
    from ehkafka.ranges.places import Place


class PlannedRange(NamedTuple):
    """Where reading begins and ends, the topic's id, and earlier records where it has none.

    `others` are the positions of an earlier reader's ends in partitions that are not read now.
    """

    starts: Positions
    stops: Positions
    others: Positions
    topic_id: bytes | None
    witnesses: Witnesses


def plan(options: ReadOptions, start: Where, end: Where) -> PlannedRange:
    """Return the plan. Raises `ConfigurationError`, `EndpointError` or one of its kinds."""
    topic, now = options.topic, datetime.now(UTC)
    # What is wrong by itself is refused without a broker.
    check_order(place_of("start", start, topic, (), now), place_of("end", end, topic, (), now), now)
    with Log(options) as log:
        log.identity.begin([topic])
        partitions = log.partitions()
        # Before the ends are asked: an id is never younger than the positions that it comes with.
        topic_id = _topic_id(start, topic, log)
        begins = place_of("start", start, topic, partitions, now)
        others: Positions = {}
        witnesses: Witnesses = {}
        if isinstance(start, Ends):
            begins = _begin_of(start, begins, log, options, topic_id)
            if isinstance(begins, AtOffsets):  # the same log
                kept = start.positions if options.assigned else {}
                others = {one: at for one, at in kept.items() if one not in partitions}
                known = {} if topic_id else start.witnesses
                witnesses = {p: record for p, record in known.items() if p in others or p in partitions}
        stops_at = place_of("end", end, topic, partitions, now)
        starts, stops = begin.between(begins, stops_at, log, partitions, fail=options.fail_on_data_loss)
    return PlannedRange(starts, stops, others, topic_id, witnesses)


def _topic_id(start: Where, topic: str, log: Log) -> bytes | None:
    """Return the topic's id; an earlier one where the broker does not answer within its time."""
    found = log.identity.first().get(topic)
    if found is None and isinstance(start, Ends) and start.topic_id is not None:
        found = log.identity.now({topic: start.topic_id}).get(topic, start.topic_id)
    return found


def _begin_of(ends: Ends, place: Place, log: Log, options: ReadOptions, topic_id: bytes | None) -> Place:
    """Return where an earlier reader's ends lead: the beginning, where the topic is another one by now."""
    fail, words = options.fail_on_data_loss, options.words
    if (reason := _replaced(ends, log, topic_id)) is not None:
        logs_replaced([reason], words).settle(fail=fail)
        return AtWord("earliest")
    there = log.partitions()
    if not options.assigned and (gone := sorted(set(ends.positions) - set(there))):
        partitions_gone(gone, words).settle(fail=fail)
    assert isinstance(place, AtOffsets)
    offsets = dict(place.offsets)
    log_ends = log.ends(list(offsets))
    beyond = [one for one, at in offsets.items() if at > log_ends[one]]
    for one, log_start in log.starts(beyond).items():
        at = offsets[one]
        Loss(one, at, at, log_start, log_ends[one]).lost(words).settle(fail=fail)
        offsets[one] = log_start
    return AtOffsets(tuple(offsets.items()), otherwise="earliest")


def _replaced(ends: Ends, log: Log, topic_id: bytes | None) -> str | None:
    """Return what tells that the topic was recreated since; None where nothing does."""
    topic = ends.topic
    if ends.topic_id is not None:
        assert topic_id is not None
        return None if topic_id == ends.topic_id else id_replaced(topic, ends.topic_id, topic_id)
    carried = {one: record for one, record in ends.witnesses.items() if one in log.partitions()}
    _, seen = log.identity.records({}, {one: offset for one, (offset, _) in carried.items()})
    reasons = made_anew(carried, seen).get(topic)
    return records_replaced(topic, reasons) if reasons else None
