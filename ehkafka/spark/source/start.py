"""The options that say where a stream begins and where a batch ends. Pure.

The words and JSON shapes are the JVM connector's; `group` and a default for partitions that are not named
are ours. Called by `options` on the driver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.places import EARLIEST, AtGroup, AtOffsets, AtTime, AtWord
from ehkafka.spark.source import option_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.ranges.places import Place, Start, Word

_OFFSETS = '{"readings": {"0": 23, "1": -2}} (-2 is earliest, -1 latest)'
_TIMES = '{"readings": {"0": 1767225600000}}'
_STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
_ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_STRATEGY = "startingOffsetsByTimestampStrategy"
_WITHOUT_COMMIT = "startingOffsetsWithoutCommit"
_UNNAMED = "startingOffsetsUnnamed"
OF_PLACES = (*_STARTS, _STRATEGY, _WITHOUT_COMMIT, _UNNAMED, *_ENDS)
"""All of these options."""


def start_from(options: Mapping[str, str], group: str | None) -> Start | None:
    """Return where the query begins, None when nothing is said."""
    name = _only_one(options, _STARTS)
    additions = ((_STRATEGY, _STARTS[:2]), (_WITHOUT_COMMIT, _STARTS[2:]), (_UNNAMED, _STARTS[2:]))
    for addition, belongs in additions:
        if addition in options and name not in belongs:
            raise ConfigurationError(
                f"Option {addition} works only with {' and '.join(belongs)}: leave it out."
            )
    if name is None:
        return None
    if name == "startingOffsets":
        return _offsets_start(options, group)
    strategy = option_text.word(_STRATEGY, options.get(_STRATEGY, "error"), "error", "latest")
    return _time(name, options[name], cast("Literal['error', 'latest']", strategy))


def end_from(options: Mapping[str, str]) -> Place | None:
    """Return where a batch query ends, None when nothing is said."""
    name = _only_one(options, _ENDS)
    if name is None:
        return None
    if name != "endingOffsets":
        # Records newer than all there are: the end is the end.
        return _time(name, options[name], "latest")
    place = _place(name, options[name])
    if place == AtWord("earliest") or (
        isinstance(place, AtOffsets) and any(offset == EARLIEST for _, offset in place.offsets)
    ):
        raise ConfigurationError("Option endingOffsets: a query that ends at earliest reads nothing.")
    return place


def _offsets_start(options: Mapping[str, str], group: str | None) -> Start:
    text = options["startingOffsets"]
    is_group = text.lower() == "group"
    if _WITHOUT_COMMIT in options and not is_group:
        raise ConfigurationError(
            f"Option {_WITHOUT_COMMIT} works only with startingOffsets=group: leave it out."
        )
    place = _group_start(options, group) if is_group else _place("startingOffsets", text)
    if _UNNAMED not in options:
        return place
    if not isinstance(place, AtOffsets):
        raise ConfigurationError(
            f"Option {_UNNAMED} works only with offsets of single partitions, such as "
            f"startingOffsets={_OFFSETS}: leave it out."
        )
    word = option_text.word(_UNNAMED, options[_UNNAMED], "earliest", "latest")
    return replace(place, otherwise=cast("Word", word))


def _group_start(options: Mapping[str, str], group: str | None) -> AtGroup:
    if group is None:
        raise ConfigurationError(
            "Option startingOffsets=group starts at the commits of a group, and no group is named: add the "
            "option groupId."
        )
    given = options.get(_WITHOUT_COMMIT, "earliest")
    word = option_text.word(_WITHOUT_COMMIT, given, "earliest", "latest", "fail")
    return AtGroup(group, None if word == "fail" else AtWord(cast("Word", word)))


def _place(name: str, text: str) -> AtWord | AtOffsets:
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return AtWord(cast("Word", word))
    if not word.startswith("{"):
        more = ", group" if name == "startingOffsets" else ""
        raise option_text.wrong(name, text, f"give earliest, latest{more} or JSON, such as {_OFFSETS}")
    return AtOffsets(option_text.by_partition(name, text, _OFFSETS, EARLIEST))


def _time(name: str, text: str, after_last: Literal["error", "latest"]) -> AtTime:
    if name.endswith("ByTimestamp"):
        moments = option_text.moments_by_partition(name, text, _TIMES)
        return AtTime(by_partition=moments, after_last=after_last)
    return AtTime(option_text.moment_ms(name, text), after_last=after_last)


def _only_one(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    given = [name for name in names if name in options]
    if len(given) > 1:
        raise ConfigurationError(f"Options {' and '.join(given)} contradict each other: keep one.")
    return given[0] if given else None
