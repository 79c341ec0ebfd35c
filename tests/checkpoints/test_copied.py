"""Whether a mirror's ranges count: only for the very commit that it copies, and only if that is ours."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.body import checkpoint_body, read_checkpoint
from ehkafka.checkpoints.mirror.book import MirrorBook, SeenBlob
from ehkafka.checkpoints.mirror.foreign import is_copy
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition

T0 = TopicPartition("t", 0)
RANGES = ((7, 9),)


def copy(**more: Any) -> Checkpoint:
    """Return what an earlier run has left."""
    given: dict[str, Any] = {"commit_metadata": "ours", "metadata_returned": True, **more}
    facts = LogFacts(witness=(4, 99))
    return Checkpoint(next_offset=5, finished=RANGES, owner="earlier", facts=facts, **given)


@pytest.mark.parametrize(
    ("checkpoint", "is_ours", "counts"),
    [
        pytest.param(copy(), True, True, id="ours, as its metadata say"),
        pytest.param(copy(), False, False, id="another client's, as its metadata say"),
        pytest.param(copy(), None, False, id="ours had metadata, and this one has none"),
        pytest.param(copy(metadata_returned=None), None, False, id="unknown whether they come back"),
        pytest.param(copy(metadata_returned=False), None, True, id="the service gives none back"),
        pytest.param(copy(commit_metadata="none"), None, True, id="ours had none"),
        pytest.param(copy(commit_metadata=None), None, False, id="unknown whether ours had some"),
        pytest.param(copy(commit_metadata="none"), False, False, id="ours had none, and this one has some"),
    ],
)
def test_who_made_the_commit(checkpoint: Checkpoint, *, is_ours: bool | None, counts: bool) -> None:
    """In doubt it was another client: that only repeats records."""
    assert is_copy(checkpoint, 5, is_ours=is_ours) is counts
    assert not is_copy(checkpoint, 6, is_ours=True), "it copies another commit"


@pytest.mark.parametrize("commit_metadata", ["none", "ours", None])
@pytest.mark.parametrize("returned", [True, False, None])
def test_what_is_known_comes_back_from_a_body(commit_metadata: Any, *, returned: bool | None) -> None:
    """Also that it is not known; what makes no sense there is not known, either."""
    written = copy(commit_metadata=commit_metadata, metadata_returned=returned)
    assert read_checkpoint(checkpoint_body(written)) == written
    odd = b'{"ehkafka":1,"next_offset":5,"finished":[],"commit_metadata":["ours"],"metadata_returned":1}'
    assert read_checkpoint(odd) == Checkpoint(next_offset=5)


def book_over(checkpoint: Checkpoint, *, is_ours: bool | None, committed: int | None = 5) -> MirrorBook:
    """Return a book that begins an epoch where another client has put the group, and has read the blob."""
    book = MirrorBook("me", interval_s=10.0)
    book.assigned(T0, 1, committed, is_ours=is_ours)
    book.was_read(T0, 1, SeenBlob("1", checkpoint, 2.0))
    return book


@pytest.mark.parametrize("is_ours", [False, None])
def test_ranges_above_another_client_s_commit_are_taken_out_at_once(*, is_ours: bool | None) -> None:
    """Else the next commit of ours at that offset would bring them back; where it stands is left as it is."""
    book = book_over(copy(), is_ours=is_ours)
    assert book.to_write(2.0) == [T0]
    write = book.write(T0, 0)
    assert write is not None
    assert write.expected == "1"
    found = write.checkpoint
    assert (found.next_offset, found.finished, found.facts.witness) == (5, (), (4, 99))
    assert (found.commit_metadata, found.metadata_returned) == ("none", True)
    book.was_written(T0, write, "2", 3.0)
    assert (book.to_write(99.0), book.behind()) == ([], [])


def test_they_are_taken_out_also_where_our_first_commit_was_quicker_than_the_look() -> None:
    """A commit that was asked for before the blob was read overwrites no other client's otherwise."""
    book = MirrorBook("me", interval_s=10.0)
    book.assigned(T0, 1, 5, is_ours=None)
    book.acknowledged(T0, Position(1, 5, None, "said"), requested_s=1.0, now_s=1.5)
    book.was_read(T0, 1, SeenBlob("1", copy(), 2.0))
    assert book.to_write(2.0) == [T0]


@pytest.mark.parametrize(
    ("checkpoint", "is_ours", "committed"),
    [
        pytest.param(copy(), True, 5, id="our own commit"),
        pytest.param(copy(commit_metadata="none"), None, 5, id="it may be ours"),
        pytest.param(copy(), False, 4, id="of another commit: it counts for nothing anyway"),
        pytest.param(copy(), True, None, id="the group has no commit"),
    ],
)
def test_other_ranges_stay(checkpoint: Checkpoint, *, is_ours: bool | None, committed: int | None) -> None:
    """Only what would be mistaken for ours is worth a write."""
    assert book_over(checkpoint, is_ours=is_ours, committed=committed).to_write(99.0) == []


@pytest.mark.parametrize(
    ("metadata", "returned", "is_owed"),
    [("said", None, False), (None, None, True), ("said", False, True)],
)
def test_what_was_owed_is_owed_still_where_a_bare_commit_may_be_ours(
    *, metadata: str | None, returned: bool | None, is_owed: bool
) -> None:
    """Without metadata, or with a service that gives none back, each of our commits looks bare."""
    book = MirrorBook("me", interval_s=10.0, metadata_returned=returned)
    book.assigned(T0, 1)
    done = Position(1, 5, None, metadata, RANGES)
    book.acknowledged(T0, done, requested_s=1.0, now_s=1.0)
    book.ended(T0, 1, 1.0)
    book.assigned(T0, 2, 5, is_ours=None)
    book.was_read(T0, 2, SeenBlob(None, None, 2.0))
    assert book.to_write(2.0) == ([T0] if is_owed else [])


def test_a_commit_that_says_more_or_less_than_the_one_before_is_written() -> None:
    """The same offset and ranges, but who reads them must know whether ours had metadata."""
    book = MirrorBook("me", interval_s=0.0)
    book.assigned(T0, 1)
    book.was_read(T0, 1, SeenBlob(None, None, 0.0))
    for number, metadata in enumerate((None, "said", None), start=1):
        done = Position(1, 5, None, metadata, RANGES)
        book.acknowledged(T0, done, requested_s=number, now_s=number)
        write = book.write(T0, 0)
        assert write is not None
        assert write.checkpoint.commit_metadata == ("ours" if metadata else "none")
        book.was_written(T0, write, str(number), number)
        assert book.to_write(99.0) == []


def test_what_was_found_out_is_written_where_it_matters() -> None:
    """Where there are ranges, once; later blobs say it, and a later run's blobs, too."""
    book = MirrorBook("me", interval_s=0.0)
    book.assigned(T0, 1)
    book.was_read(T0, 1, SeenBlob(None, None, 0.0))
    book.acknowledged(T0, Position(1, 5, None, "said", RANGES), 1.0, 1.0)
    first = book.write(T0, 0)
    assert first is not None
    assert first.checkpoint.metadata_returned is None
    book.was_written(T0, first, "1", 1.0)
    book.learned(2.0, is_returned=False)
    assert book.behind() == [T0]
    second = book.write(T0, 0)
    assert second is not None
    assert second.checkpoint.metadata_returned is False
    book.was_written(T0, second, "2", 3.0)
    assert (book.to_write(99.0), book.behind()) == ([], [])
    later = MirrorBook("later", interval_s=0.0)
    later.assigned(T0, 1)
    later.was_read(T0, 1, SeenBlob("2", second.checkpoint, 4.0))
    later.acknowledged(T0, Position(1, 6, None, "said", RANGES), 5.0, 5.0)
    third = later.write(T0, 0)
    assert third is not None
    assert third.checkpoint.metadata_returned is False
