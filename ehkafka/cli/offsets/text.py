"""Offsets, plans and comparisons as text for eyes, and as JSON for programs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.cli.columns import columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.offsets import LagReport, Move, PartitionView, Plan
    from ehkafka.offsets.checkpoints import Export
    from ehkafka.offsets.compare import Compared


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


def exports_as_text(planned: Sequence[Export], back: Mapping[int, int | None] | None = None) -> str:
    """Return which checkpoint is written where; with `back`, what was read back."""
    headers = ["PARTITION", "NOW", "THEN", "BLOB", ""]
    rows: list[list[object]] = [
        [one.partition, one.before, _then(one), one.written.name if one.written else None, one.note]
        for one in planned
    ]
    if back is not None:
        headers.insert(3, "READ BACK")
        for row, one in zip(rows, planned, strict=True):
            row.insert(3, back.get(one.partition))
    return columns(headers, rows)


def exports_as_dict(
    planned: Sequence[Export], back: Mapping[int, int | None] | None = None
) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            "partition": one.partition,
            "before": one.before,
            "after": _then(one),
            "read_back": None if back is None else back.get(one.partition),
            "blob": one.written.name if one.written else None,
            "note": one.note or None,
        }
        for one in planned
    ]


def compared_as_text(rows: Sequence[Compared]) -> str:
    """Return group, mirror and SDK side by side."""
    table = [
        (
            row.view.partition,
            f"{row.view.log.start}–{row.view.log.end}",
            row.view.committed,
            row.mirror,
            row.other,
            row.note,
        )
        for row in rows
    ]
    return columns(("PARTITION", "LOG", "GROUP", "MIRROR", "SDK", ""), table)


def compared_as_dict(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            **view_as_dict(row.view),
            "mirror": row.mirror,
            "sdk": row.other,
            "differs": row.differs,
            "note": row.note or None,
        }
        for row in rows
    ]


def note_of(view: PartitionView) -> str:
    """Return what is to be known of one partition, in a few words."""
    above = f"{view.finished_above} finished above it" if view.finished_above else ""
    return ", ".join(filter(None, (view.problem, above)))


def _log(move: Move) -> str | None:
    return None if move.log is None else f"{move.log.start}–{move.log.end}"


def _then(export: Export) -> int | None:
    return export.next_offset if export.written is not None else None


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
        notes.append(f"{move.finished_again}{more} finished above the commit again")
    if move.note:
        notes.append(move.note)
    return "; ".join(notes)
