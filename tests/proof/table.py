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
    "repeated exactly once",
    "uncovered",
    "end to end",
    "readers",
    "other",
    "repeated at least once",
    "excused",
    "all committed after s",
    "commit",
)
# What a run found that only its own report shows.
OF_ONE_RUN = {"shown", "evidence", "logs"}
# What looks wrong and is taken for a fault's doing: so that a reader sees how often.
EXCUSED = ("stranded", "fenced", "converted", "unfinished_stops")
# Which violations a column has; `other` has those of no other column.
LOST = ("lost", "load")
ORDER = ("order", "last", "two_partitions", "letters_order")
EARLY = ("early", "back")
COUNTED = {*LOST, *ORDER, *EARLY, "overlap", "uncovered", "readers", "repeated"}
# What ends so was found from the first input to the last output; a level has found most of it, too.
END_TO_END = "_end_to_end"


def row_of(result: dict[str, Any]) -> list[Any]:
    """Return a run's row."""
    violations: dict[str, int] = result["violations"]

    def of(*kinds: str) -> int:
        return sum(violations.get(kind, 0) for kind in kinds)

    from_end_to_end = {
        kind.removesuffix(END_TO_END): count
        for kind, count in violations.items()
        if kind.endswith(END_TO_END)
    }
    other = {
        kind: count
        for kind, count in violations.items()
        if kind not in COUNTED and not kind.endswith(END_TO_END)
    }
    members = result.get("kind", "")
    return [
        result["seed"],
        result.get("mode", ""),
        f"{members}, static" if result.get("static") else members,
        result.get("protocol", ""),
        sum(result["faults"].values()),
        result["records"],
        of(*LOST),
        of(*ORDER),
        of("overlap"),
        of(*EARLY),
        of("repeated"),
        of("uncovered"),
        words(from_end_to_end),
        of("readers"),
        words(other),
        result.get("repeated", 0),
        words(excused_of(result)),
        result.get("settled_s", 0.0),
        result.get("commit", ""),
    ]


def excused_of(result: dict[str, Any]) -> dict[str, int]:
    """Return what looked wrong, and how often, without being a violation."""
    members = result.get("members", {})
    counts = {name: members.get(name, 0) for name in EXCUSED}
    return counts | {name: result.get(name, 0) for name in ("doubted", "load_repeated", "reader_resets")}


def broken_of(result: dict[str, Any]) -> int:
    """Return how many promises were broken: one that a level has found counts there alone."""
    violations: dict[str, int] = result["violations"]
    return sum(
        count
        for kind, count in violations.items()
        if not (kind.endswith(END_TO_END) and kind.removesuffix(END_TO_END) in violations)
    )


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
        "outputs repeated in at-least-once mode": repeated,
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
        "broken": sum(map(broken_of, results)),
        "note": " ".join([note_of(faults), *map(why_of, filter(broken_of, results))]),
        # A series goes on from these.
        "runs": [{k: v for k, v in result.items() if k not in OF_ONE_RUN} for result in results],
    }


def note_of(faults: dict[str, int]) -> str:
    """Return what stands below the table."""
    each = ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))
    return (
        "The cluster has three brokers, replication 3 and min.insync.replicas 2. In runs with exactly once, "
        "two brokers are never down at the same time "
        "([why](../guides/exactly-once.md#what-is-not-promised)). Three "
        "groups form a chain: each group reads the outputs of the group before it. The column *records* "
        "counts the records of all three groups. In at-least-once mode, a repeated output breaks no promise. "
        "If a group's broken promise also appears in the column *end to end*, the promise counts only once. "
        "The column *excused* lists results that looked wrong but had an injected fault as their cause. In "
        "the column *other*, `idle` counts members that had no "
        "partition for 45 s, `checker` counts checks that ended with an error, and `code` counts members "
        "that stopped with another exit code than 0. The commit and the date above are those of the last "
        "call, and the time is the sum of all runs. In all runs together, the test injected these faults: "
        f"{each}."
    )


def why_of(result: dict[str, Any]) -> str:
    """Return a sentence about a run in which something broke. It stays in the table when its seed runs again.

    `why` is written into the series by hand, once the cause is known.
    """
    commit, broken = result.get("commit", "no commit"), words(result["violations"])
    found = f"Run of seed {result['seed']} at {commit} ({broken})"
    return f"{found}: {result.get('why', 'the cause is not known yet')}."


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
