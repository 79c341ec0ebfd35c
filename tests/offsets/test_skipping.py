"""What skipping records from outside writes into the group's commit."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import OffsetGapError
from ehkafka.offsets.skipping import SkipRange, check_skip, skipping
from ehkafka.offsets.view import PartitionView
from ehkafka.positions.gap import LogBounds
from ehkafka.progress.metadata import LogFacts, decode, encode, moved
from ehkafka.progress.ranges import Ranges, SavedRanges
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from ehkafka.offsets.plan import Move

P0 = TopicPartition("t", 0)
LOG = LogBounds(10, 1_000)
FACTS = LogFacts(4, b"i" * 16, (98, 1_700_000_000_000), "release-7")
# 100 is stuck, 101 to 216 and 230 to 239 are finished.
FINISHED = ((101, 217), (230, 240))


def skipped(
    start: int,
    end: int | None = None,
    *,
    finished: Ranges = FINISHED,
    text: str | None = None,
    bytes_max: int = 1_023,
    **of: Any,
) -> Move:
    """Skip in a commit of 100, or in one of `text`."""
    if text is None:
        text = encode(100, FACTS, finished, 5, 4_000).text or ""
    one = SkipRange(P0, start, start + 1 if end is None else end, **of)
    return skipping(PartitionView(0, LOG, 100, finished, True), text, one, bytes_max)


def contents(move: Move) -> tuple[LogFacts, SavedRanges]:
    """Return what the new commit says."""
    assert move.after is not None
    found = decode(move.text or "", move.after)
    assert not isinstance(found, str)
    return found.facts, found.ranges  # type: ignore[union-attr]


def test_the_record_at_the_commit_moves_it_over_what_is_finished_behind() -> None:
    """What is finished further up stays so, and so do the facts of the log, which is the same."""
    move = skipped(100, leader_epoch=6)
    assert (move.after, move.kept, move.passed_finished, move.finished_again) == (217, ((230, 240),), 116, 0)
    assert contents(move) == (FACTS, SavedRanges(((230, 240),), 6))


def test_a_record_above_the_commit_is_marked_where_it_lies() -> None:
    """The position stays; repeating it has no effect."""
    move = skipped(220)
    assert (move.after, move.kept, move.changes) == (100, ((101, 217), (220, 221), (230, 240)), True)
    assert move.note == "stays; 1 offset above it marked finished"
    again = skipped(220, finished=move.kept or (), text=move.text)
    assert (again.changes, again.note) == (False, "finished already")


def test_a_range_is_cut_at_the_commit_and_joined_with_what_is_finished() -> None:
    """What lies below has been passed."""
    move = skipped(50, 231)
    assert (move.after, move.kept, move.passed_finished) == (240, (), 126)
    assert skipped(50, 100).note == "passed already: the commit is 100"
    assert not skipped(50, 100).changes


@pytest.mark.parametrize(
    ("committed", "start", "end", "words"),
    [
        (100, 1_000, 1_001, "the log ends at 1000, so no readable record has this offset yet"),
        (100, 1_005, 1_006, "1005 is 5 ahead of the log's end (10–1000)"),
        (100, 990, 1_001, "1000 is the end of the log"),
        (None, 20, 21, "the group has no commit on this partition"),
        (3, 12, 13, "is 7 before the log's start: retention has deleted the record at the commit"),
        (1_007, 12, 13, "the commit, 1007, is 7 ahead of the log's end. Move the commit"),
    ],
)
def test_where_there_is_nothing_to_skip_it_says_so(
    committed: int | None, start: int, end: int, words: str
) -> None:
    """Behind the log's end, before its start, without a commit; nothing else is refused without a look."""
    with pytest.raises(OffsetGapError, match=rf"^t/0@{start} cannot be skipped: .*{re.escape(words)}"):
        check_skip(PartitionView(0, LOG, committed), SkipRange(P0, start, end))
    with pytest.raises(OffsetGapError, match="the topic has no such partition"):
        check_skip(None, SkipRange(P0, 1, 2))
    check_skip(PartitionView(0, LOG, 100), SkipRange(P0, 100, 101))


def test_what_no_longer_fits_is_handled_again_and_counted() -> None:
    """The lowest are kept; a skipped record that would not be among them is refused."""
    chosen = random.Random(1)
    many = tuple((n, n + chosen.randint(1, 9)) for n in range(110, 990, 11))
    room = len(encode(100, FACTS, many, 5, 4_000).text or "") - 40
    move = skipped(104, finished=many, bytes_max=room)
    assert move.finished_again > 0
    assert move.kept is not None
    assert move.kept[0] == (104, 105)
    assert not contents(move)[1].is_complete
    with pytest.raises(OffsetGapError, match=f"{room} bytes of the commit's metadata have no room for th"):
        skipped(995, finished=many, bytes_max=room)


@pytest.mark.parametrize(
    "text", ["", "another client's", moved(100, FACTS.of_no_log()), encode(99, FACTS, (), None, 99).text]
)
def test_where_the_commit_says_nothing_only_what_is_skipped_is_finished(text: str) -> None:
    """No copy elsewhere counts then either: the commit says that it has said all."""
    move = skipped(150, finished=(), text=text, leader_epoch=3)
    assert contents(move)[1] == SavedRanges(((150, 151),), 3, is_complete=True)
    assert contents(skipped(100, finished=(), text=text))[1].is_complete


def test_a_copy_of_a_commit_that_stays_may_still_know_more() -> None:
    """Not where the position moves: the copy is of the old one."""
    text = encode(100, FACTS, FINISHED, 5, 4_000, is_complete=False).text
    assert not contents(skipped(220, text=text))[1].is_complete
    assert contents(skipped(100, text=text))[1].is_complete


@pytest.mark.parametrize(
    ("saved", "skips", "newest"), [(5, 6, 6), (6, 5, 6), (5, None, 5), (0, 3, 3), (None, 6, 6)]
)
def test_the_newest_leader_epoch_stands_for_all(
    saved: int | None, skips: int | None, newest: int | None
) -> None:
    """A record of a newer one would be another than the one that was skipped."""
    text = encode(100, FACTS, FINISHED, saved, 4_000).text
    assert contents(skipped(220, text=text, leader_epoch=skips))[1].leader_epoch == newest


def test_past_a_batch_that_cannot_be_read_only_a_position_leads() -> None:
    """Marked alone it would stop the next reader, too; what lies before it comes first."""
    move = skipped(100, 110, unreadable=True, note="what lies up to 109 cannot be read: CRC")
    assert (move.after, move.passed_finished) == (217, 116)
    with pytest.raises(OffsetGapError, match=r"Unfinished before 220: 4 records\. Let the group"):
        skipped(220, 225, unreadable=True, note="what lies up to 224 cannot be read: CRC")
