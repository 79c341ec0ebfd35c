"""Turns a start or an end into offsets of each partition. Pure over what `log` answers.

For a stream of Spark, called once in the life of a checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.loss import Loss
from ehkafka.ranges.places import EARLIEST, LATEST, AtGroup, AtOffsets, AtTime, AtWord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.ranges.log import Log
    from ehkafka.ranges.places import Place, Start, Word
    from ehkafka.records import TopicPartition


def offsets_of(
    place: Start, log: Log, partitions: Collection[TopicPartition], *, grows: bool = False
) -> dict[TopicPartition, int]:
    """Return the offset of each partition. Raises `ConfigurationError` for a partition that none is for.

    With `grows` a partition that offsets do not name has come since: it begins with its log.
    """
    match place:
        case AtWord(word):
            return log.starts(partitions) if word == "earliest" else log.ends(partitions)
        case AtOffsets(offsets, otherwise):
            rest: Word | None = "earliest" if grows else otherwise
            others = [one for one in partitions if rest is not None and one not in dict(offsets)]
            named = [one for one in partitions if one not in others]
            found = _from_offsets(dict(offsets), log, named)
            return found if rest is None else found | offsets_of(AtWord(rest), log, others)
        case AtTime():
            return _from_time(place, log, partitions)
        case AtGroup(group, otherwise):
            return _from_group(group, otherwise, log, partitions)


def between(
    start: Start,
    end: Place,
    log: Log,
    partitions: Collection[TopicPartition],
    *,
    fail: bool,
    grows: bool = False,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return where reading begins in each partition, and where it ends.

    What retention has taken of that raises `OffsetGapError`, or with `fail=False` is named and left out; an
    end before the start raises `ConfigurationError`. `grows` is for the start, as in `offsets_of`.
    """
    starts = offsets_of(start, log, partitions, grows=grows)
    ends = offsets_of(end, log, partitions)
    first = log.starts(partitions)
    for partition, at in starts.items():
        if at > ends[partition]:
            raise ConfigurationError(
                f"{partition}: reading would begin at offset {at} and end at {ends[partition]}, which is "
                "lower. Correct the start or the end."
            )
        if at < first[partition] and at < ends[partition]:
            loss = Loss(partition, at, ends[partition], first[partition], ends[partition])
            loss.lost(log.words).settle(fail=fail)
            starts[partition] = loss.resume_at
    return starts, ends


def _from_offsets(
    offsets: Mapping[TopicPartition, int], log: Log, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    _check_named(offsets, partitions, log.words.unnamed)
    early = [one for one in partitions if offsets[one] == EARLIEST]
    late = [one for one in partitions if offsets[one] == LATEST]
    ends = log.ends(partitions)
    if beyond := [one for one in partitions if offsets[one] > ends[one]]:
        raise ConfigurationError(
            f"The offset {offsets[beyond[0]]} given for {beyond[0]} is beyond the end of its log, "
            f"{ends[beyond[0]]}: give an offset up to the end, or latest."
        )
    return {one: offsets[one] for one in partitions} | log.starts(early) | {one: ends[one] for one in late}


def _from_time(place: AtTime, log: Log, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    if place.moment_ms is not None:
        moments = dict.fromkeys(partitions, place.moment_ms)
    else:
        moments = dict(place.by_partition)
        _check_named(moments, partitions, "name every partition.")
        moments = {one: moments[one] for one in partitions}
    found = log.at(moments)
    older = [one for one in partitions if found[one] is None]
    if older and place.after_last == "error":
        raise ConfigurationError(
            f"{older[0]} has no record at or after the start time, {moments[older[0]]} ms since 1970. "
            f"{log.words.later}"
        )
    known = {one: offset for one, offset in found.items() if offset is not None}
    return known | log.ends(older)


def _from_group(
    group: str, otherwise: Place | None, log: Log, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    known, new = log.committed(group, partitions)
    without = [one for one in partitions if one not in known]
    if without and otherwise is None:
        raise ConfigurationError(
            f"Group {group!r} has committed nothing on {without[0]}, so the start of reading is not known. "
            f"{log.words.uncommitted}"
        )
    if otherwise is None or not without:
        return known
    # No option asked to skip the records that are older than the group's first look at them.
    added = [one for one in without if one in new]
    rest = [one for one in without if one not in added]
    return known | log.starts(added) | (offsets_of(otherwise, log, rest) if rest else {})


def _check_named(
    named: Mapping[TopicPartition, int], partitions: Collection[TopicPartition], advice: str
) -> None:
    """Both ways, as the JVM connector does: what is forgotten or misspelt must not begin somewhere."""
    if missing := [one for one in partitions if one not in named]:
        raise ConfigurationError(f"The offsets given do not name {missing[0]}: {advice}")
    if unknown := sorted(set(named) - set(partitions)):
        raise ConfigurationError(f"The offsets given name {unknown[0]}, which is not read: leave it out.")
