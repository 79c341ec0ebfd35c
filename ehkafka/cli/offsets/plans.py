"""A plan of moves: shown, carried out with `--yes`, and read back. What `ehkafka offsets …` has in common.

On the main thread. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.lag import note_of, place_of, view_as_dict
from ehkafka.cli.options import Partition, Yes
from ehkafka.cli.output import columns, notice, put_json, put_text
from ehkafka.offsets import LagReport, move
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.offsets import GroupOffsets, Move, Plan

cli = CommandLine(help="Move, import, export and compare a group's offsets.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """Whether a plan is carried out, and how long the group is watched before."""

    yes: Yes = False
    watch_s: Annotated[
        float | None,
        typer.Option(
            "--watch-for",
            min=0.0,
            max=600.0,
            help="Seconds to watch whether a client still commits. Default: 7 if the broker reports no "
            "members of the group; else, and on Event Hubs, 65, because the slowest clients commit every "
            "60 s.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving(Applying):
    """What may be moved, and whether it is."""

    partition: Partition = None
    clamp: Annotated[
        bool, typer.Option("--clamp", help="Move a position outside the log to the nearest end of the log.")
    ] = False


def carry_out(
    group: GroupOffsets,
    plan: Plan,
    applying: Applying,
    *,
    as_json: bool,
    headline: str,
    before: Mapping[int, tuple[int | None, str]] | None = None,
) -> None:
    """Show a plan; move the group where that is wanted, and show where it stands then."""
    shown: dict[str, Any] = {**place_of(group), "dry_run": not applying.yes, "moves": plan_as_dict(plan)}
    if not as_json:
        put_text(f"{headline}\n\n{plan_as_text(plan)}\n")
    if plan.refused and as_json:
        put_json(shown)
    if applying.yes or plan.refused:
        # A plan with refused moves is refused in a preview, too: its exit code should tell.
        after = LagReport.of(move(group, plan, before=before, watch_s=applying.watch_s, report=notice))
        shown |= {"after": report_as_dict(after)}
        if not as_json:
            count = f"Committed {len(plan.positions)} of {counted(len(plan.moves), 'partition')}."
            words = count if plan.positions else "There was nothing to move."
            put_text(f"{words} The commits of the group, read back now:\n\n{report_as_text(after)}")
    elif not as_json:
        last = "Add --yes to do it." if plan.positions else "There is nothing to move."
        put_text(f"Nothing was moved. {last}")
    if as_json:
        put_json(shown)


def report_as_text(report: LagReport) -> str:
    """Return where the group stands, and the sum."""
    rows = [
        (view.partition, view.log.start, view.log.end, view.committed, view.lag, note_of(view))
        for view in report.views
    ]
    table = columns(("PARTITION", "LOG START", "LOG END", "COMMITTED", "LAG", ""), rows)
    return f"{table}\ntotal lag {report.total}"


def report_as_dict(report: LagReport) -> dict[str, Any]:
    """Return the same for JSON."""
    return {"total_lag": report.total, "partitions": [view_as_dict(view) for view in report.views]}


def plan_as_text(plan: Plan) -> str:
    """Return what would change, partition by partition."""
    rows = [(m.partition, _log(m), m.before, _after(m), m.to_read, _effect(m)) for m in plan.moves]
    return columns(("PARTITION", "LOG", "NOW", "THEN", "TO READ", ""), rows)


def plan_as_dict(plan: Plan) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            "partition": move.partition,
            "before": move.before,
            "after": move.after,
            "passed_finished": move.passed_finished,
            "finished_again": move.finished_again,
            "note": move.note or None,
            "refused": move.is_refused,
        }
        for move in plan.moves
    ]


def _log(move: Move) -> str | None:
    return None if move.log is None else f"{move.log.start}–{move.log.end}"


def _after(move: Move) -> object:
    if move.is_refused:
        return "refused"
    return move.before if move.after is None else move.after


def _effect(move: Move) -> str:
    notes = []
    if move.after is not None and not move.changes:
        notes.append("unchanged")
    elif move.after is not None and move.before is None:
        notes.append("first commit")
    elif move.skipped_records > 0:
        already = f", {move.passed_finished} of them finished already" if move.passed_finished else ""
        notes.append(f"skips {move.skipped_records}{already}")
    elif move.skipped_records < 0:
        notes.append(f"{-move.skipped_records} again")
    if move.finished_again:
        more = "" if move.says_all else " or more"
        notes.append(f"repeats {move.finished_again}{more} that finished out of order")
    if move.note:
        notes.append(move.note)
    return "; ".join(notes)
