"""Start positions: where a partition begins when its group has no committed offset.

A group commit always wins: an operator's rewind is never undone. Without one, the position comes from
here and from nowhere else: there is no silent default. The forms:

| form | begins at | mind |
|---|---|---|
| `"earliest"` | the first record that the log holds | what retention deleted before is not counted as lost |
| `"latest"` | the log's end at the first assignment, committed at once | what comes later is never skipped |
| an offset | that offset, in every partition | outside of the log it is a gap: see `on_out_of_range` |
| a datetime with time zone | the first record with that timestamp or a later one | see below |
| a timedelta | the same, counted back from the first assignment | see below |
| a mapping | what it has for `(topic, partition)`, else `partition`, else `"*"` | nothing is guessed |
| a callable `(topic, partition)` | any of the above but a mapping | it holds up the poll thread |

Times are looked up by the records' timestamps as the broker has them: on Event Hubs, and wherever topics
have `LogAppendTime`, the time at which the broker took the record; elsewhere what producers wrote, which
need not ascend. A time before the first record is the log's start, one after the last is its end.

Values and their checks, which each app needs when it is made; `log_bounds.start_offsets` looks them up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import quoted
from ehkafka.wording.calling import is_async, must_take

if TYPE_CHECKING:
    from collections.abc import Collection

    from ehkafka.records import TopicPartition

FixedStart = Literal["earliest", "latest"] | int | datetime | timedelta
# By `(topic, partition)`, by partition number, or under `"*"` for every other one.
StartByPartition = Mapping[Any, FixedStart]
Start = FixedStart | StartByPartition | Callable[[str, int], FixedStart]

OTHERS = "*"
OFFSET_MAX = 2**63 - 1
_WORDS = ("earliest", "latest")
_ONE = "'earliest', 'latest', an offset (int ≥ 0), a datetime with time zone, a timedelta to go back"
_EXPLANATION = (
    f"{_ONE}, a mapping of partitions (a number, (topic, number) or '*') to these, "
    "or a callable (topic, partition) -> one of these"
)


def check_start(start: object) -> None:
    """Refuse what is not a start position. Raises `ConfigurationError`."""
    if start is None:
        raise ConfigurationError(
            f"start is missing: set where a group without a committed offset begins to read: {_EXPLANATION}."
        )
    if isinstance(start, Mapping):
        _check_mapping(start)
    elif not callable(start) and not _is_fixed(start):
        raise ConfigurationError(f"start={quoted(start)} is not a start position: give {_EXPLANATION}.")
    elif callable(start):
        if is_async(start):
            raise ConfigurationError(
                "start is an async def, but it is called without an event loop: give a plain function."
            )
        must_take(start, ("topic", "partition"), "start")


def check_start_topics(start: object, topics: Collection[str]) -> None:
    """Refuse a mapping that names a topic without a handler. Raises `ConfigurationError`."""
    if not isinstance(start, Mapping):
        return
    unknown = sorted({key[0] for key in start if isinstance(key, tuple) and key[0] not in topics})
    if unknown:
        raise ConfigurationError(
            f"start names the topic {', '.join(map(repr, unknown))}, but the handlers have only the topics "
            f"{', '.join(map(repr, sorted(topics)))}: correct the name."
        )


def fixed(start: Start, partition: TopicPartition) -> FixedStart:
    """Return what `start` says of one partition. Raises `ConfigurationError`."""
    if isinstance(start, Mapping):
        return _from_mapping(start, partition)
    if not callable(start):
        return start
    try:
        position = start(partition.topic, partition.partition)
    except Exception as error:
        raise ConfigurationError(f"The start callable failed for {partition}: {error!r}.") from error
    if not _is_fixed(position):
        raise ConfigurationError(
            f"The start callable returned {position!r} for {partition}, which is not a start position: "
            f"return {_ONE}."
        )
    return position


def _is_fixed(position: object) -> bool:
    if isinstance(position, bool):
        return False
    if isinstance(position, str):
        return position in _WORDS
    if isinstance(position, int):
        return 0 <= position <= OFFSET_MAX
    if isinstance(position, datetime):
        return position.tzinfo is not None
    return isinstance(position, timedelta) and position >= timedelta(0)


def _check_mapping(start: StartByPartition) -> None:
    if not start:
        raise ConfigurationError("start={} names no partition; give one, or '*' for every partition.")
    for key, position in start.items():
        if key != OTHERS and not _is_number(key) and not _is_topic_and_number(key):
            raise ConfigurationError(
                f"start has the key {key!r}: use a partition's number, (topic, number), or '*' for all "
                f"other partitions."
            )
        if not _is_fixed(position):
            raise ConfigurationError(f"start[{key!r}]={position!r} is not a start position: give {_ONE}.")


def _is_number(key: object) -> bool:
    return isinstance(key, int) and not isinstance(key, bool) and key >= 0


def _is_topic_and_number(key: object) -> bool:
    return isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and _is_number(key[1])


def _from_mapping(start: StartByPartition, partition: TopicPartition) -> FixedStart:
    for key in (tuple(partition), partition.partition, OTHERS):
        if key in start:
            return start[key]
    raise ConfigurationError(
        f"start has no position for {partition}, and the group has no committed offset for it. Add the key "
        f"{partition.partition} or {tuple(partition)!r} to start, or '*' for all other partitions."
    )
