"""`ehkafka owners`: who has which partition, and how far it is behind.

On the main thread. Joins what the owners wrote beside the mirror with what the broker tells of the group.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ehkafka.cli.columns import columns
from ehkafka.cli.offsets.output import put_json, put_text
from ehkafka.offsets.members import members_of
from ehkafka.offsets.owners import SILENT_S, owner_rows, read_owners
from ehkafka.wording import counted, seconds

if TYPE_CHECKING:
    from ehkafka.offsets import GroupOffsets
    from ehkafka.offsets.owners import OwnerRow
    from ehkafka.offsets.source import CheckpointStore

HEADERS = ("NAMESPACE", "HUB", "GROUP", "OWNER", "PARTITION", "LAST MODIFIED", "LAG", "")

NOTES = {
    "silent": f"not heard of for more than {seconds(SILENT_S)}",
    "gone": "gone: the group has no members",
    "released": "released",
}


def owners(group: GroupOffsets, store: CheckpointStore | None, namespace: str, *, as_json: bool) -> None:
    """Print a row for each partition; without a store only what the broker tells."""
    written = {} if store is None else read_owners(store, namespace, group.group, group.topic)
    with group:
        views = group.views()
        members = members_of(group.target, group.group, group.topic, group.timeout_s)
    rows = owner_rows(views, written, members, int(time.time() * 1000))
    if as_json:
        place = {"namespace": namespace, "hub": group.topic, "group": group.group}
        put_json(
            {**place, "broker_reported": members is not None, "partitions": [_as_dict(row) for row in rows]}
        )
        return
    table = [(namespace, group.topic, group.group, *_cells(row)) for row in rows]
    put_text(columns(HEADERS, table))
    held = {row.owner for row in rows if row.state == "held"}
    total = sum(row.view.lag for row in rows)
    count = f"{counted(len(held), 'owner')}, {counted(len(rows), 'partition')}"
    put_text(f"\n{count}, total lag {total}")
    if store is None and members is None:
        put_text(
            "The broker does not name the group's members. With a mirror its owners are known: --mirror."
        )


def _cells(row: OwnerRow) -> tuple[object, ...]:
    notes = []
    if row.state in NOTES:
        notes.append(NOTES[row.state])
    if row.state == "silent" and row.member_name:
        notes.append(f"the broker names {row.member_name}")
    if row.view.lag == 0:
        notes.append("idle")
    return row.owner or None, row.view.partition, _time(row.modified_at_ms), row.view.lag, ", ".join(notes)


def _as_dict(row: OwnerRow) -> dict[str, object]:
    return {
        "partition": row.view.partition,
        "owner": row.owner or None,
        "member": row.member_name or None,
        "member_id": row.member.id or None if row.member else None,
        "client_id": row.member.client if row.member else None,
        "host": row.member.host if row.member else None,
        "state": row.state,
        "last_modified": _time(row.modified_at_ms),
        "committed": row.view.committed,
        "lag": row.view.lag,
    }


def _time(moment_ms: int | None) -> str | None:
    if moment_ms is None:
        return None
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
