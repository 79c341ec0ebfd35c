"""The compact set of offsets behaves as a set of integers does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.checker.offset_set import OffsetSet

OFFSETS = st.lists(st.integers(0, 40))
RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)))


@given(OFFSETS, RANGES, OFFSETS)
def test_set_of_offsets_is_a_set(single: list[int], ranges: list[tuple[int, int]], batch: list[int]) -> None:
    """Whatever way offsets are added, membership, size and ranges are those of a plain set."""
    compact, plain = OffsetSet(), set()
    for offset in single:
        assert compact.add(offset) == (offset not in plain)
        plain.add(offset)
    for start, length in ranges:
        compact.add_range(start, start + length)
        plain |= set(range(start, start + length))
        assert compact.add(20) == (20 not in plain)
        plain.add(20)
    compact.update(batch)
    plain |= set(batch)
    assert {offset for offset in range(50) if offset in compact} == plain
    assert len(compact) == len(plain)
    assert compact.count_from(17) == sum(offset >= 17 for offset in plain)
    assert [offset for start, end in compact.ranges() for offset in range(start, end)] == sorted(plain)
    assert all(a[1] < b[0] for a, b in zip(compact.ranges(), compact.ranges()[1:], strict=False))


def test_millions_of_offsets_are_one_range() -> None:
    """Memory follows the holes: offsets out of order within a window leave none."""
    compact = OffsetSet()
    for start in range(0, 100_000, 100):
        for offset in range(start + 99, start - 1, -1):
            assert compact.add(offset)
    assert compact.ranges() == [(0, 100_000)]
    assert not compact.add(77_777)
    assert len(compact._recent) <= 1_024
