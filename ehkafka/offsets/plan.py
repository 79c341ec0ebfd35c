"""What moving a group's offsets would do, partition by partition. Pure.

A position outside of the log is refused, not bent: behind the log's end there is nothing that it could mean
but another log of the same name. Only `clamp` takes the nearest end instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.offsets.view import outside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.offsets.view import PartitionView
    from ehkafka.positions.gap import LogBounds
    from ehkafka.progress.ranges import Ranges

KEPT_NOTE: Final = "kept"
NO_PARTITION: Final = "the topic has no such partition"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: from where to where. Made by `planned`."""

    # Its number.
    partition: int
    # The offsets of its first record (`start`) and behind its last one (`end`); None: there is no such
    # partition.
    log: LogBounds | None
    # The group's commit; None: it has none.
    before: int | None
    # The commit to be; None where it is left alone or cannot be moved.
    after: int | None
    # Why it is kept, refused or clamped; empty for a plain move.
    note: str = ""
    # It stands in the way of the whole plan.
    is_refused: bool = False
    # Of the records that it passes over, how many are finished already.
    passed_finished: int = 0
    # How many records the commit says to be finished that are handled again nevertheless; more may be, unless
    # `says_all`.
    finished_again: int = 0
    # False: the commit had no room for all that is finished above it.
    says_all: bool = True
    # The metadata of the new commit; None: that it was moved.
    text: str | None = None
    # What the new commit says to be finished above it; None: nothing.
    kept: Ranges | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to commit."""
        is_renewed = self.finished_again > 0 or self.text is not None
        return self.after is not None and (self.after != self.before or is_renewed)

    @property
    def skipped_records(self) -> int:
        """Offsets that will not be read because of it; negative: that will be read again."""
        return 0 if self.after is None or self.before is None else self.after - self.before

    @property
    def to_read(self) -> int | None:
        """What is left to read then; None where that is not known."""
        then = self.before if self.after is None else self.after
        return None if self.log is None or then is None or self.is_refused else max(0, self.log.end - then)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a move would do to all partitions of a topic. Made by `planned`."""

    # One for each partition.
    moves: tuple[Move, ...]

    @property
    def refused(self) -> tuple[Move, ...]:
        """What stands in the way."""
        return tuple(move for move in self.moves if move.is_refused)

    @property
    def positions(self) -> dict[int, int]:
        """What is to be committed."""
        return {m.partition: m.after for m in self.moves if m.changes and m.after is not None}

    def refusal(self) -> str:
        """Say what is refused: partitions and reasons."""
        reasons = [f"partition {move.partition}: {move.note}" for move in self.refused]
        return "; ".join(reasons[:_NAMED]) + (
            f"; and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
        )


def planned(
    views: Mapping[int, PartitionView],
    wanted: Mapping[int, int],
    *,
    clamp: bool = False,
    notes: Mapping[int, str] | None = None,
    refused: Mapping[int, str] | None = None,
    anew: bool = False,
) -> Plan:
    """Return the plan of moving a group; partitions that are not wanted are kept.

    - `views` (required): what `GroupOffsets.views()` returned.
    - `wanted` (required): by partition, the offset of the next record to be read.
    - `clamp` (default `False`): whether an offset outside of its log becomes the nearest end. Else it is
      refused.
    - `notes` (default `None`): by partition, why it is kept.
    - `refused` (default `None`): by partition, why it cannot be moved.
    - `anew` (default `False`): whether all from the position on is to be handled, what was finished out of
      order included, also where the commit stays.
    """
    notes, refused = notes or {}, refused or {}
    numbers = sorted({*views, *wanted, *refused})
    moves = [
        _move(number, views.get(number), wanted.get(number), clamp, notes.get(number, ""), refused, anew)
        for number in numbers
    ]
    return Plan(tuple(moves))


def _move(
    number: int,
    view: PartitionView | None,
    wanted: int | None,
    clamp: bool,
    note: str,
    refused: Mapping[int, str],
    anew: bool,
) -> Move:
    if view is None:
        reason = refused.get(number, NO_PARTITION)
        return Move(number, None, None, None, reason, is_refused=True)
    if number in refused:
        return Move(number, view.log, view.committed, None, refused[number], is_refused=True)
    if wanted is None:
        return Move(number, view.log, view.committed, None, note or KEPT_NOTE)
    far = outside(wanted, view.log)
    if not far:
        return _moved(view, wanted, note, anew)
    if not clamp:
        text = f"{wanted} is {far} ({view.log.start}–{view.log.end})"
        return Move(number, view.log, view.committed, None, text, is_refused=True)
    nearest = min(max(wanted, view.log.start), view.log.end)
    return _moved(view, nearest, f"clamped: {wanted} is {far}", anew)


def _moved(view: PartitionView, after: int, note: str, anew: bool) -> Move:
    """Return a move after which nothing above the commit counts as finished."""
    stays = after == view.committed and not anew
    return Move(
        view.partition,
        view.log,
        view.committed,
        after,
        note,
        passed_finished=view.finished_within(0, after),
        finished_again=0 if stays else view.finished_within(after, view.log.end),
        says_all=view.says_all,
    )
