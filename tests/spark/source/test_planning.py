"""How a batch's offsets are shared among partitions and tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.ranges.places import Piece, pieces_between
from ehkafka.records import TopicPartition
from ehkafka.spark.source.planning import limited, plan

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
RANGES = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)), max_size=12)


def _starts(ranges: dict[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    return {one: start for one, (start, _) in ranges.items()}


def _ends(ranges: dict[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    return {one: start + size for one, (start, size) in ranges.items()}


@given(RANGES, st.integers(1, 10**6))
def test_a_limit_is_used_whole_and_never_exceeded(
    ranges: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    """A batch has the limit's number of offsets or all there are, and every backlog gets its share."""
    starts, ends = _starts(ranges), _ends(ranges)
    found = limited(starts, ends, limit)
    backlog = {one: ends[one] - starts[one] for one in ends}
    waiting = [one for one, size in backlog.items() if size]
    assert sum(found[one] - starts[one] for one in found) == min(
        max(limit, len(waiting)), sum(backlog.values())
    )
    assert all(starts[one] < found[one] <= ends[one] for one in waiting)


def test_the_share_is_in_proportion_to_the_backlog() -> None:
    """Three times the backlog gets three times the share; a small backlog is not left behind."""
    large, small, tiny = (TopicPartition("a", number) for number in range(3))
    starts = {large: 100, small: 0, tiny: 7}
    found = limited(starts, {large: 3100, small: 1000, tiny: 8}, 400)
    assert found == {large: 100 + 299, small: 100, tiny: 8}


@given(RANGES)
def test_without_a_limit_a_batch_goes_to_the_end(ranges: dict[TopicPartition, tuple[int, int]]) -> None:
    """No limit, no cut."""
    assert limited(_starts(ranges), _ends(ranges), None) == _ends(ranges)


@given(RANGES, st.integers(1, 8), st.booleans())
def test_a_plan_has_every_offset_once(
    ranges: dict[TopicPartition, tuple[int, int]], tasks: int, split: bool
) -> None:
    """Tasks together read each offset once; none is empty, and there are no more than asked for."""
    pieces = pieces_between(_starts(ranges), _ends(ranges))
    shares = plan(pieces, tasks, split=split)
    assert len(shares) <= tasks
    assert all(shares)
    parts = sorted((piece.where, piece.start, piece.end) for share in shares for piece in share)
    joined: list[tuple[TopicPartition, int, int]] = []
    for where, start, end in parts:
        if joined and joined[-1][0] == where and joined[-1][2] == start:
            joined[-1] = (where, joined[-1][1], end)
        else:
            joined.append((where, start, end))
    assert joined == [(piece.where, piece.start, piece.end) for piece in pieces]


@given(RANGES, st.integers(1, 8))
def test_a_partition_is_whole_unless_cuts_are_allowed(
    ranges: dict[TopicPartition, tuple[int, int]], tasks: int
) -> None:
    """Trap (minPartitions): a partition cut over tasks loses its order, so it is not cut."""
    pieces = pieces_between(_starts(ranges), _ends(ranges))
    assert sorted(
        (piece for share in plan(pieces, tasks, split=False) for piece in share), key=lambda one: one.where
    ) == sorted(pieces, key=lambda one: one.where)


def test_cuts_even_out_the_tasks() -> None:
    """One large partition keeps four tasks busy when cuts are allowed."""
    shares = plan([Piece("a", 0, 0, 1_000_000), Piece("a", 1, 0, 10)], 4, split=True)
    sizes = [sum(piece.size_records for piece in share) for share in shares]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 20


def test_one_task_for_each_partition_is_the_default() -> None:
    """Without `tasks` the cluster's own scheduler deals the partitions out."""
    pieces = [Piece("a", number, 0, 5) for number in range(3)]
    assert plan(pieces, None, split=False) == [[piece] for piece in pieces]


def test_partitions_are_dealt_so_that_tasks_have_about_the_same() -> None:
    """The largest piece stands alone next to several small ones."""
    pieces = [Piece("a", number, 0, size) for number, size in enumerate([90, 30, 30, 30])]
    shares = plan(pieces, 2, split=False)
    assert [[piece.partition for piece in share] for share in shares] == [[0], [1, 2, 3]]
