"""Whether a record is being handled at this moment. Pure; the caller has the lock."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message


def is_running(dispatcher: Dispatcher, message: Message, key: Hashable) -> bool | None:
    """Tell whether a record is with its handler, by the very message; `key` is where it is looked for first.

    None where that is not known: a record of an assignment that has ended may be, or be another app's.
    """
    topic = message.topic()
    # A handler of messages may have set any.
    known = TopicPartition(topic, message.partition()) if type(topic) is str else None
    assignment = None if known is None else dispatcher.assignments.get(known)
    if assignment is None:
        return None
    if any(one is message for chunk in assignment.all_chunks() for one in chunk.in_flight()):
        return True
    lane = assignment.lanes.get(key)
    if lane is not None and _runs(dispatcher, lane, message):
        return True
    # The order function may have answered otherwise this time.
    return any(_runs(dispatcher, other, message) for other in assignment.lanes_here())


def _runs(dispatcher: Dispatcher, lane: Lane, message: Message) -> bool:
    if not lane.running or lane in dispatcher.decisions.awaited:
        return False
    return any(one is message for one in itertools.islice(lane.messages(), lane.running))
