"""Which offsets a batch takes, and which task reads them.

Pure arithmetic. A limit is shared in proportion to backlog; pieces are dealt over tasks so that the
largest share is small. A partition is cut only when asked: its records would then be handled side by side.
Called on the driver, once for each batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.ranges.places import Piece
    from ehkafka.records import TopicPartition

# Below so many records a cut costs more (a fetch from the middle of a log) than a second core gains.
_CUT_RECORDS_MIN = 10_000


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit_records: int | None
) -> dict[TopicPartition, int]:
    """Return the ends of a batch of at most `limit_records`, shared in proportion to backlog.

    Every partition with a backlog gets one record at least, so that a small one next to a growing one is
    not starved for ever; a limit below their number counts as their number. A partition whose end
    lies before its start keeps that end.
    """
    backlog = {one: end - starts[one] for one, end in ends.items() if end > starts[one]}
    total = sum(backlog.values())
    if limit_records is None or total <= limit_records:
        return dict(ends)
    # One for each; the rest by what is then left of its backlog, rounding errors to those cut most.
    rest, left = max(0, limit_records - len(backlog)), max(1, total - len(backlog))
    share = {one: 1 + (size - 1) * rest // left for one, size in backlog.items()}
    cut_most = sorted(backlog, key=lambda one: (-((backlog[one] - 1) * rest % left), one))
    for one in cut_most[: len(backlog) + rest - sum(share.values())]:
        share[one] += 1
    return {one: starts[one] + share[one] if one in share else end for one, end in ends.items()}


def plan(pieces: Iterable[Piece], tasks: int | None, *, split: bool) -> list[list[Piece]]:
    """Deal pieces over at most `tasks` tasks (None: one for each piece); no task is empty.

    With `split` a large piece is cut so that all tasks have about the same; a task gets the cuts of one
    partition in order.
    """
    wanted = [piece for piece in pieces if piece.end > piece.start]
    if not wanted:
        return []
    if tasks is None:
        return [[piece] for piece in wanted]
    if split:
        wanted = list(_cut(wanted, tasks))
    shares: list[list[Piece]] = [[] for _ in range(min(tasks, len(wanted)))]
    loads = [0] * len(shares)
    # The largest first, each to the task that has least: at most a third above the best deal.
    for piece in sorted(wanted, key=lambda one: (-one.size_records, one.where, one.start)):
        least = loads.index(min(loads))
        shares[least].append(piece)
        loads[least] += piece.size_records
    return [_merged(share) for share in shares]


def _cut(pieces: list[Piece], tasks: int) -> Iterable[Piece]:
    total = sum(piece.size_records for piece in pieces)
    size = max(_CUT_RECORDS_MIN, -(-total // tasks))
    for piece in pieces:
        for start in range(piece.start, piece.end, size):
            yield replace(piece, start=start, end=min(piece.end, start + size))


def _merged(share: list[Piece]) -> list[Piece]:
    """Join cuts of one partition that follow each other, and order the share by partition and offset."""
    merged: list[Piece] = []
    for piece in sorted(share, key=lambda one: (one.where, one.start)):
        if merged and merged[-1].where == piece.where and merged[-1].end == piece.start:
            merged[-1] = replace(merged[-1], end=piece.end)
        else:
            merged.append(piece)
    return merged
