"""What it does to a group's commit to skip records from outside: they count as finished. Pure.

The commit says on what it says to be finished, and the skipped records with it. Where these begin at the
commit, its position moves on over all that is finished behind them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import OffsetGapError
from ehkafka.offsets.plan import NO_PARTITION, Move
from ehkafka.offsets.view import outside
from ehkafka.progress.metadata import NOTHING_KNOWN, CommitMetadata, Unusable, decode, encode, moved
from ehkafka.progress.ranges import Known
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from ehkafka.offsets.view import PartitionView
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.progress.ranges import SavedRanges
    from ehkafka.records import TopicPartition


class SkipRange(NamedTuple):
    """Offsets to skip, from `start` up to `end`, and what is known of them.

    `leader_epoch` is the newest among their records; None: not known. Where they are `unreadable`, only a
    position behind them gets past them. `note` says what they are.
    """

    partition: TopicPartition
    start: int
    end: int
    leader_epoch: int | None = None
    unreadable: bool = False
    note: str = ""

    def refused(self, why: str) -> OffsetGapError:
        """Return the error of what cannot be skipped."""
        place = f"{self.partition.topic}/{self.partition.partition}@{self.start}"
        return OffsetGapError(f"{place} cannot be skipped: {ended(why)} Nothing was moved.")


def check_skip(view: PartitionView | None, skip: SkipRange) -> None:
    """Refuse what cannot be skipped, whatever lies there. Raises `OffsetGapError`."""
    if view is None:
        raise skip.refused(NO_PARTITION)
    log, last = view.log, skip.end - 1
    if view.committed is None:
        raise skip.refused("the group has no commit on this partition. Run ehkafka offsets reset first")
    if view.is_outside:
        why = ": retention has deleted the record at the commit" if view.committed < log.start else ""
        raise skip.refused(
            f"the commit, {view.committed}, is {view.problem}{why}. Move the commit: ehkafka offsets reset"
        )
    if skip.start == log.end:
        raise skip.refused(f"the log ends at {log.end}, so no readable record has this offset yet")
    if skip.end > log.end:
        raise skip.refused(f"{last} is {outside(last, log) or 'the end of the log'} ({log.start}–{log.end})")


def skipping(view: PartitionView, text: str, skip: SkipRange, bytes_max: int) -> Move:
    """Return the move that skips what was checked; `text` is what the commit says now.

    The new commit has room for `bytes_max` bytes. Where not all that is finished fits, the lowest offsets are
    kept, and the rest is handled again. Raises `OffsetGapError`, also where there is no room for the skip.
    """
    committed = view.committed
    assert committed is not None
    plain = Move(view.partition, view.log, committed, committed)
    if skip.end <= committed:
        return replace(plain, note=f"passed already: the commit is {committed}")
    facts, saved = _contents(text, committed)
    start = max(skip.start, committed)
    finished = Known(saved.finished, saved.leader_epoch).union(Known(((start, skip.end),), skip.leader_epoch))
    if finished.finished == saved.finished:
        return replace(plain, note="finished already")
    first_start, first_end = finished.finished[0]
    after = first_end if first_start == committed else committed
    if skip.unreadable and after < skip.end:
        left = start - committed - view.finished_within(committed, start)
        unfinished = f"Unfinished before {start}: {counted(left, 'record')}. Let the group handle these first"
        raise skip.refused(f"{skip.note}. {unfinished}")
    # A copy of the old commit may say more than there was room for: it counts for that position alone.
    is_complete = saved.is_complete or after != committed
    written = encode(after, facts, *finished.above(after), bytes_max, is_complete=is_complete)
    new_text = written.text or moved(after, facts)
    kept = _contents(new_text, after)[1].finished
    if after < skip.end and not any(low <= start and skip.end <= high for low, high in kept):
        raise skip.refused(
            f"the {bytes_max} bytes of the commit's metadata have no room for this record. First skip the "
            f"record that the commit waits for"
        )
    fresh = skip.end - start - view.finished_within(start, skip.end)
    marked = "" if after >= skip.end else f"stays; {counted(fresh, 'offset')} above it marked finished"
    return replace(
        plain,
        after=after,
        note="; ".join(filter(None, (marked, skip.note))),
        passed_finished=view.finished_within(committed, after),
        finished_again=written.dropped_offsets,
        says_all=view.says_all,
        text=new_text,
        kept=kept,
    )


def _contents(text: str, offset: int) -> tuple[LogFacts, SavedRanges]:
    """Return the facts of a commit, and what is finished above it."""
    said = decode(text, offset)
    if isinstance(said, Unusable):
        said = CommitMetadata(NOTHING_KNOWN)
    return said.facts, said.ranges
