"""`ehkafka owners`: who has which partition, and how far it is behind.

On the main thread. Joins what the owners wrote next to the mirror with what the broker tells of the group.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.options import OfGroup, OfMirror, Topic
from ehkafka.cli.output import columns, put_json, put_text
from ehkafka.cli.target import group_offsets
from ehkafka.offsets.members import members_of
from ehkafka.offsets.owners import SILENT_S, owner_rows, read_owners
from ehkafka.offsets.source import mirror_of_target, open_source
from ehkafka.wording import counted, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.offsets.owners import OwnerRow

HEADERS = ("NAMESPACE", "HUB", "GROUP", "OWNER", "PARTITION", "LAST MODIFIED", "LAG", "")

NOTES = {
    "silent": f"no report for more than {seconds(SILENT_S)}",
    "gone": "gone: the group has no members",
    "released": "released",
}

cli = CommandLine()


@cli.command("owners")
def owners(
    topic: Topic,
    *,
    of_mirror: OfMirror,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The namespace in the mirror. Default: the endpoint's host name."),
    ] = None,
    of: OfGroup,
) -> None:
    r"""Show the owner of each partition, its last report, and its lag.

    Owners write their reports next to the mirror, also for idle partitions. Without a mirror, the command
    shows the broker's list of members.

    \b
    Examples:
      ehkafka owners readings --group shop --mirror checkpoints
      ehkafka owners readings --app shop.readings:app --json

    \b
    Environment:
      EHKAFKA_MIRROR_…   name the mirror if neither --mirror nor the app names one

    """
    group = group_offsets(topic, of)
    store, named = mirror_of_target(group.target)
    if of_mirror.mirror is not None:
        store = open_source(of_mirror.mirror, of_mirror.credential, of_mirror.client_id)
    namespace = namespace or named
    written = {} if store is None else read_owners(store, namespace, group.group, group.topic)
    with group:
        views = group.views()
        members = members_of(group.target, group.group, group.topic, group.timeout_s)
    rows = owner_rows(views, written, members, int(time.time() * 1000))
    place = {"namespace": namespace, "hub": group.topic, "group": group.group}
    if of.as_json:
        found = [_as_dict(row) for row in rows]
        put_json({**place, "broker_reported": members is not None, "partitions": found})
        return
    put_text(columns(HEADERS, [(*place.values(), *_cells(row)) for row in rows]))
    put_text(f"\n{_total(rows)}")
    if store is None and members is None:
        put_text(
            "The broker does not name the group's members. With a mirror its owners are known: --mirror."
        )


def _total(rows: Sequence[OwnerRow]) -> str:
    owners = {row.owner for row in rows if row.state == "owned"}
    lag = sum(row.view.lag for row in rows)
    return f"{counted(len(owners), 'owner')}, {counted(len(rows), 'partition')}, total lag {lag}"


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
