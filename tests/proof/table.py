"""The table of many runs: a row for each, for a reader and as `build/survives/three-brokers.json`."""

from __future__ import annotations

from typing import Any

COLUMNS = (
    "seed",
    "mode",
    "members",
    "protocol",
    "faults",
    "records",
    "lost",
    "order",
    "overlap",
    "early commits",
    "repeated",
    "uncovered",
    "readers",
    "other",
    "excused",
    "settled s",
)
# What looks wrong and is taken for a fault's doing: so that a reader sees how often.
EXCUSED = ("outages_felt", "stranded", "fenced", "unfinished_stops")
# Which violations a column has; `other` has those of no other column.
LOST = ("lost", "lost_end_to_end", "load")
ORDER = ("order", "order_end_to_end", "last", "two_partitions")
EARLY = ("early", "back")
COUNTED = {*LOST, *ORDER, *EARLY, "overlap", "uncovered", "readers"}


def row_of(result: dict[str, Any]) -> list[Any]:
    """Return a run's row."""
    violations: dict[str, int] = result["violations"]

    def of(*kinds: str) -> int:
        return sum(violations.get(kind, 0) for kind in kinds)

    other = {kind: count for kind, count in violations.items() if kind not in COUNTED}
    members = result.get("kind", "")
    return [
        result["seed"],
        result.get("mode", ""),
        f"{members}, static" if result.get("static") else members,
        result.get("protocol", ""),
        words(result["faults"]),
        result["records"],
        of(*LOST),
        of(*ORDER),
        of("overlap"),
        of(*EARLY),
        result.get("repeated", 0),
        of("uncovered"),
        of("readers"),
        words(other),
        words(excused_of(result)),
        result.get("settled_s", 0.0),
    ]


def excused_of(result: dict[str, Any]) -> dict[str, int]:
    """Return what looked wrong, and how often, without being a violation."""
    members = result.get("members", {})
    counts = {name: members.get(name, 0) for name in EXCUSED}
    return counts | {name: result.get(name, 0) for name in ("doubted", "load_repeated", "reader_resets")}


def summary_of(results: list[dict[str, Any]], *, command: str, commit: str, date: str) -> dict[str, Any]:
    """Return what `build/survives` keeps."""
    rows = [row_of(result) for result in sorted(results, key=lambda one: one["seed"])]
    faults: dict[str, int] = {}
    for result in results:
        for name, count in result["faults"].items():
            faults[name] = faults.get(name, 0) + count
    repeated = sum(result.get("repeated", 0) for result in results)
    counts = {
        "runs": len(results),
        "records": sum(result["records"] for result in results),
        "faults": sum(faults.values()),
        "outputs": sum(result.get("outputs", 0) for result in results),
        "repeated at least once": repeated,
    }
    return {
        "name": "three-brokers",
        "command": command,
        "commit": commit,
        "date": date,
        "seconds": sum(result.get("took_s", 0) for result in results),
        "counts": counts,
        "columns": [*COLUMNS],
        "rows": rows,
        "broken": sum(sum(result["violations"].values()) for result in results),
        "note": note_of(faults),
    }


def note_of(faults: dict[str, int]) -> str:
    """Return what stands below the table."""
    each = ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))
    return (
        "Three brokers, replication 3, min.insync.replicas 2; three groups in a chain, each of which reads "
        "what the one before it writes. Records are those of all three levels. At least once repeats are no "
        "fault. Excused is what looked wrong and is taken for a fault's doing; settled is how long it took "
        f"after the last fault until all was committed. Faults in all: {each}."
    )


def words(counts: dict[str, int]) -> str:
    """Return counts by name, without those that are none."""
    return " ".join(f"{name}:{count}" for name, count in counts.items() if count)


def text_of(results: list[dict[str, Any]]) -> str:
    """Return the table as text: the faults in all below it, since they are long."""
    shown = [column for column in COLUMNS if column != "faults"]
    at = [COLUMNS.index(column) for column in shown]
    rows = [
        [str(row_of(result)[place]) for place in at]
        for result in sorted(results, key=lambda one: one["seed"])
    ]
    widths = [max(map(len, column)) for column in zip(shown, *rows, strict=True)]
    lines = [shown, *rows]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
