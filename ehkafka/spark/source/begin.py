"""Turns a start or an end into offsets of each partition. Pure over what `log` answers.

Called once in the life of a checkpoint for the start, on the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.spark.source.start import EARLIEST, LATEST, AtGroup, AtOffsets, AtTime, AtWord

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ehkafka.records import TopicPartition
    from ehkafka.spark.source.log import Log
    from ehkafka.spark.source.start import Place, Start, Word

_EVERY = (
    "name every partition (-2 is earliest, -1 latest). Where a query begins, startingOffsetsUnnamed=earliest"
    " or latest covers the rest."
)


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


def _from_offsets(
    offsets: Mapping[TopicPartition, int], log: Log, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    _check_named(offsets, partitions, _EVERY)
    early = [one for one in partitions if offsets[one] == EARLIEST]
    late = [one for one in partitions if offsets[one] == LATEST]
    ends = log.ends(partitions)
    if beyond := [one for one in partitions if offsets[one] > ends[one]]:
        raise ConfigurationError(
            f"The offset {offsets[beyond[0]]} given for {beyond[0]} lies behind the end of its log,"
            f" {ends[beyond[0]]}: give one up to there, or -1 (latest)."
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
            f"{older[0]} has no record at {moments[older[0]]} ms since 1970 or later, where the query is to"
            " begin. Give an earlier moment, or startingOffsetsByTimestampStrategy=latest."
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
            f"Group {group!r} has committed nothing on {without[0]}, where the query is to begin. Commit an"
            " offset there, or give startingOffsetsWithoutCommit=earliest or latest."
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
        raise ConfigurationError(f"The offsets given name {unknown[0]}, which the query does not read.")
