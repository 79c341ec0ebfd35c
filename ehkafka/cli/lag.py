"""`ehkafka lag`: how far a group is behind, once or again and again.

On the main thread. Asks the broker only for commits, the logs' ends and single records, which works for a
group that no broker lists and for one without members. A key may be any bytes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.live import Live
from rich.text import Text

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import LAGGING
from ehkafka.cli.options import OfGroup, Topic
from ehkafka.cli.output import PipedConsole, columns, cut, put_json, put_text, readable
from ehkafka.cli.target import group_offsets
from ehkafka.offsets import LagReport
from ehkafka.wording import seconds
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.offsets import GroupOffsets, PartitionView
    from ehkafka.offsets.blocking import Blocking

KEY_CHARACTERS_MAX = 40
_HEADERS = ("PARTITION", "LOG START", "LOG END", "COMMITTED", "LAG", "UNFINISHED", "BLOCKED BY", "")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))

cli = CommandLine()


@cli.command("lag")
def lag(
    topic: Topic,
    *,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C.")] = False,
    every_s: Annotated[
        float,
        typer.Option("--every", min=0.2, max=3600.0, help="Seconds between two repetitions of --watch."),
    ] = 2.0,
    fail_over: Annotated[
        int | None,
        typer.Option(
            "--fail-over",
            min=0,
            metavar="N",
            help="Stop with exit code 6 if the total lag is above N, or a commit is outside its log.",
        ),
    ] = None,
    of: OfGroup,
) -> int:
    r"""Show a group's lag, its unfinished records, and the record that each commit waits for.

    LAG counts the records from the commit to the end of the log. UNFINISHED counts those of them that are
    not finished, because ehkafka finishes some records out of order. The commits of other clients do not
    contain this (–), so the total is then "at least". BLOCKED BY is the record that the commit waits for:
    its offset, key and age.

    The command joins no group, and the group needs no members. A partition without a commit counts with its
    whole log.

    \b
    Examples:
      ehkafka lag readings --app shop.readings:app
      ehkafka lag readings --group shop --endpoint localhost:9092 --watch
      ehkafka lag readings --group shop --fail-over 10000     exit code 6 if the lag is above 10000
      ehkafka lag readings --group shop --watch --json        one line of JSON every 2 s

    """
    there = group_offsets(topic, of)
    if watch:
        return _watch(there, fail_over=fail_over, as_json=of.as_json, every_s=every_s)
    with there:
        now = Lag.of(there)
    _put(there, now, as_json=of.as_json)
    return LAGGING if fail_over is not None and now.report.fails(fail_over) else 0


class Lag(NamedTuple):
    """One look: where the group stands, and which records its commits wait for."""

    report: LagReport
    blocking: Mapping[int, Blocking]

    @classmethod
    def of(cls, group: GroupOffsets) -> Lag:
        """Return how it is now."""
        views = group.views()
        return cls(LagReport.of(views), group.blocking(views))


def _watch(group: GroupOffsets, *, fail_over: int | None, as_json: bool, every_s: float) -> int:
    """Show the lag until Ctrl-C, or until it is above `fail_over`: redrawn on a terminal, else repeated."""
    console = PipedConsole(highlight=False, markup=False)
    with suppress(KeyboardInterrupt), group:
        if as_json or not console.is_terminal:
            return _repeat(
                group, fail_over, every_s, lambda now: _put(group, now, as_json=as_json, is_one=False)
            )
        with Live(console=console, auto_refresh=False, screen=False) as live:

            def redraw(now: Lag) -> bool:
                clock = time.strftime("%H:%M:%S")
                text = f"{printable(group.where)}  {clock}\n\n{_text(group, now)}"
                live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
                return True

            return _repeat(group, fail_over, every_s, redraw)
    return 0


def _repeat(
    group: GroupOffsets,
    fail_over: int | None,
    every_s: float,
    put: Callable[[Lag], bool],
) -> int:
    while True:
        now = Lag.of(group)
        is_read = put(now)
        if fail_over is not None and now.report.fails(fail_over):
            return LAGGING
        if fail_over is None and not is_read:
            return 0  # no reader has its output, and no caller wants its exit code
        _pause(every_s)


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _put(group: GroupOffsets, now: Lag, *, as_json: bool, is_one: bool = True) -> bool:
    """Print a look; one of several takes one line of JSON, so that a program reads line by line."""
    if as_json:
        return put_json({**place_of(group), **lag_as_dict(*now, time.time())}, on_one_line=not is_one)
    return put_text(f"{group.where}\n\n{_text(group, now)}")


def place_of(group: GroupOffsets) -> dict[str, Any]:
    """Return which group is meant, for JSON."""
    return {"endpoint": group.target.endpoint.name, "topic": group.topic, "group": group.group}


def _text(group: GroupOffsets, now: Lag) -> str:
    hint = "" if now.report.has_commits else f"\n\n{group.without_commits}"
    return f"{lag_as_text(*now, time.time())}{hint}"


def lag_as_text(report: LagReport, blocking: Mapping[int, Blocking], now_s: float) -> str:
    """Return where the group stands, what it waits for, and the sums."""
    rows = [
        (
            view.partition,
            view.log.start,
            view.log.end,
            view.committed,
            view.lag,
            _unfinished(view),
            record_text(blocking.get(view.partition), now_s),
            note_of(view),
        )
        for view in report.views
    ]
    bound = {(True, True): "about ", (True, False): "at least ", (False, True): "at most "}
    how = bound.get((report.is_at_least, report.is_at_most), "")
    return f"{columns(_HEADERS, rows)}\nunfinished {how}{report.total_unfinished}\ntotal lag {report.total}"


def lag_as_dict(report: LagReport, blocking: Mapping[int, Blocking], now_s: float) -> dict[str, Any]:
    """Return the same for JSON. A key that is no UTF-8 is `base64:…`; nothing of it is cut."""
    return {
        "has_commits": report.has_commits,
        "total_lag": report.total,
        "total_unfinished": report.total_unfinished,
        "total_unfinished_is_at_least": report.is_at_least,
        "total_unfinished_is_at_most": report.is_at_most,
        "partitions": [
            {**view_as_dict(view), "blocked_by": _blocking_as_dict(blocking.get(view.partition), now_s)}
            for view in report.views
        ],
    }


def _unfinished(view: PartitionView) -> object:
    unfinished = view.unfinished
    return f"≤ {unfinished}" if unfinished and not view.says_all else unfinished


def record_text(one: Blocking | None, now_s: float) -> str | None:
    """Return a record as `@1207 key c-7, 5 min old`."""
    if one is None:
        return None
    if one.problem:
        return f"@{one.offset} ({one.problem})"
    key = (
        f"key {cut(readable(one.key), KEY_CHARACTERS_MAX)}"
        if one.key
        else "no key"
        if one.key is None
        else "an empty key"
    )
    age_s = one.age_s(now_s)
    return f"@{one.offset} {key}" + ("" if age_s is None else f", {age_of(age_s)} old")


def _blocking_as_dict(one: Blocking | None, now_s: float) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "offset": one.offset,
        "key": None if one.key is None else readable(one.key),
        "timestamp_ms": one.timestamp_ms,
        "age_s": one.age_s(now_s),
        "problem": one.problem or None,
    }


def age_of(age_s: float) -> str:
    """Return a time in the largest unit that it has two of: `90 s`, `5 min`, `3 h`, `12 d`."""
    for unit_s, name in _UNITS:
        if age_s >= 2 * unit_s:
            return f"{age_s / unit_s:.0f} {name}"
    return seconds(age_s)


def view_as_dict(view: PartitionView) -> dict[str, Any]:
    """Return one partition for JSON."""
    return {
        "partition": view.partition,
        "log_start": view.log.start,
        "log_end": view.log.end,
        "committed": view.committed,
        "lag": view.lag,
        "finished_above": view.finished_above,
        "unfinished": view.unfinished,
        "problem": view.problem or None,
    }


def note_of(view: PartitionView) -> str:
    """Return what is to be known of one partition, in a few words."""
    above = f"{view.finished_above} finished above it" if view.finished_above else ""
    return ", ".join(filter(None, (view.problem, above)))
