"""What a commit covers: what its text says, whatever else is finished."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.lanes.epoch import Epoch
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.transactions.coverage import Cover, cover_of
from tests.transactions.loop_bench import position

EPOCH = Epoch(TopicPartition("in", 0), 3, {})
RANGES = st.lists(st.integers(1, 400), max_size=60, unique=True).map(
    lambda steps: tuple((10 + 2 * step, 11 + 2 * step) for step in sorted(steps))
)


@given(RANGES, st.integers(64, 300))
def test_what_does_not_fit_into_the_text_is_not_covered(
    ranges: tuple[tuple[int, int], ...], bytes_max: int
) -> None:
    """A record is covered where the commit says so: a restart that reads it would not handle it again."""
    cover = cover_of(position(EPOCH, 10, ranges, bytes_max))
    said = {start for start, _ in ranges if cover.has(start)}
    assert all(cover.has(offset) for offset in range(10))
    assert not cover.has(10)
    assert said == {start for start, _ in ranges[: len(said)]}
    assert len(said) == len(ranges) or bytes_max < 300


@given(RANGES)
def test_offsets_between_ranges_are_not_covered(ranges: tuple[tuple[int, int], ...]) -> None:
    """Looked up as a set would."""
    cover = Cover(10, ranges)
    inside = {offset for start, end in ranges for offset in range(start, end)} | set(range(10))
    assert [offset for offset in range(900) if cover.has(offset)] == sorted(inside)


def test_a_text_of_another_commit_covers_nothing_above_it() -> None:
    """Its reader would not believe it either."""
    text = position(EPOCH, 12, [(20, 30)]).metadata
    assert not cover_of(Position(3, 10, None, text)).has(25)
    assert not cover_of(Position(3, 10, None, None)).has(10)
