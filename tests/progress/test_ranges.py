"""Finished ranges in a commit's text: complete, within its limit, and never wrong, even if it is forged."""

from __future__ import annotations

import base64
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.progress.metadata import TEXT_BYTES_MAX, CommitMetadata, LogFacts, Unusable, decode, encode
from ehkafka.progress.ranges import (
    MANY_RANGES,
    Ranges,
    SavedRanges,
    count_offsets,
    from_runs,
    read_ranges,
    to_runs,
    write_ranges,
)
from ehkafka.progress.ranges_forms import BODY_BYTES_MAX, FORMS, LENGTH_MAX, deflate, inflate, varint

EVENT_HUBS_BYTES = 1024
START = 1_000_000
NO_FACTS = LogFacts()
# The bit that says that ranges follow.
RANGES = 16

runs = st.lists(
    st.one_of(st.integers(1, 3), st.integers(1, 200), st.integers(1, 2**40)), min_size=2, max_size=300
)
next_offsets = st.one_of(st.integers(0, 10), st.integers(0, 2**50))


def ranges_of(next_offset: int, lengths: list[int]) -> Ranges:
    """Return ranges with these lengths of unfinished and finished by turns."""
    return from_runs(next_offset, lengths[: len(lengths) // 2 * 2])


def finished_where(done: list[bool], first: int = START) -> Ranges:
    """Return the ranges of what is done in a row of records."""
    lengths, before = [0], False
    for one in done:
        if one == before:
            lengths[-1] += 1
        else:
            lengths.append(1)
            before = one
    return from_runs(first, lengths[: len(lengths) // 2 * 2])


def complete(finished: Ranges, leader_epoch: int | None) -> CommitMetadata:
    """Return what a text says that has room for all ranges."""
    return CommitMetadata(NO_FACTS, SavedRanges(finished, leader_epoch, is_complete=True))


def offsets_in(ranges: Ranges) -> set[int]:
    """Return every offset in some short ranges."""
    return {offset for start, end in ranges for offset in range(start, end)}


@given(next_offset=next_offsets, lengths=runs, leader_epoch=st.none() | st.integers(0, 2**31 - 1))
def test_what_fits_comes_back_whole(next_offset: int, lengths: list[int], leader_epoch: int | None) -> None:
    """With room enough, decoding gives the very ranges and leader epoch."""
    finished = ranges_of(next_offset, lengths)
    written = encode(next_offset, NO_FACTS, finished, leader_epoch, TEXT_BYTES_MAX)
    assert written.text is not None
    assert written.dropped_offsets == 0
    assert written.text.isascii()
    assert decode(written.text, next_offset) == complete(finished, leader_epoch)


@given(next_offset=next_offsets, lengths=runs, bytes_max=st.integers(0, 300))
def test_the_text_never_passes_its_limit_nor_invents_an_offset(
    next_offset: int, lengths: list[int], bytes_max: int
) -> None:
    """Whatever the limit, the text is no longer, says only finished offsets, and counts what it drops."""
    finished = ranges_of(next_offset, lengths)
    written = encode(next_offset, NO_FACTS, finished, 7, bytes_max)
    assert written.kept_offsets + written.dropped_offsets == count_offsets(finished)
    if written.text is None:
        assert written.kept_offsets == 0
        return
    assert len(written.text) <= bytes_max
    decoded = decode(written.text, next_offset)
    assert isinstance(decoded, CommitMetadata)
    saved = decoded.ranges
    assert count_offsets(saved.finished) == written.kept_offsets > 0
    assert saved.is_complete is not bool(written.dropped_offsets)
    for start, end in saved.finished:
        assert any(s <= start and end <= e for s, e in finished)


def test_every_other_record_fits_by_compression() -> None:
    """20 000 alternating done and undone records: all of the detail in 1024 bytes."""
    finished = finished_where([number % 2 == 1 for number in range(20_000)])
    written = encode(START, NO_FACTS, finished, 0, EVENT_HUBS_BYTES)
    assert written.text is not None
    assert len(written.text) < 100
    assert written.dropped_offsets == 0
    assert decode(written.text, START) == complete(finished, 0)


def test_a_random_half_keeps_about_a_bit_for_each_offset() -> None:
    """A random half of 20 000 cannot fit; what 1024 bytes can hold is kept, from the lowest on."""
    chance = random.Random(4)
    finished = finished_where([False, *(chance.random() < 0.5 for _ in range(19_999))])
    written = encode(START, NO_FACTS, finished, None, EVENT_HUBS_BYTES)
    assert written.text is not None
    assert len(written.text) <= EVENT_HUBS_BYTES
    decoded = decode(written.text, START)
    assert isinstance(decoded, CommitMetadata)
    saved = decoded.ranges
    lowest = START + 6300  # of the 1024 bytes 800 are left: 6400 bits
    assert {o for o in offsets_in(finished) if o < lowest} <= offsets_in(saved.finished)
    assert offsets_in(saved.finished) <= offsets_in(finished)


@pytest.mark.parametrize(("stuck_every", "bytes_max"), [(50, EVENT_HUBS_BYTES), (100_000, 30)])
def test_few_unfinished_among_many_fit(stuck_every: int, bytes_max: int) -> None:
    """A record in fifty is stuck at random, the rest done: 20 000 fit into 1024 bytes; one stuck, into 30."""
    chance = random.Random(stuck_every)
    done = [False, *(chance.random() > 1 / stuck_every for _ in range(19_999)), True]
    assert encode(START, NO_FACTS, finished_where([*done, False]), 3, bytes_max).dropped_offsets == 0


@pytest.mark.parametrize(
    "text", ["", "m" * 2000, "AAB=", "{}", "consumer-1", "ehk", "ehk0.x", "ehkafka", "é"]
)
def test_text_of_others_is_foreign(text: str) -> None:
    """Another program's metadata is distinguished."""
    assert decode(text, START) is Unusable.FOREIGN


def test_a_newer_version_is_distinguished() -> None:
    """A version to come, whatever follows, and a form to come."""
    assert decode("ehk3.anything at all \N{SNOWMAN}", START) is Unusable.NEWER
    assert decode("ehk9999.", START) is Unusable.NEWER
    assert decode(_signed(bytes([RANGES]) + varint(START) + b"\x0f\0x"), START) is Unusable.NEWER


@given(
    form=st.sampled_from([number | packed for number in (*FORMS, 9) for packed in (0, 16)]),
    epoch=st.integers(0, 9),
    body=st.binary(max_size=60),
)
def test_hostile_text_with_a_right_checksum_is_read_within_bounds(form: int, epoch: int, body: bytes) -> None:
    """Who forges a text gets ranges above the commit, ascending and apart, or a typed answer."""
    decoded = decode(_signed(bytes([RANGES]) + varint(START) + bytes([form]) + varint(epoch) + body), START)
    if isinstance(decoded, Unusable):
        return
    edges = [edge for one in decoded.ranges.finished for edge in one]
    assert edges == sorted(edges)
    assert all(START <= start < end <= LENGTH_MAX for start, end in decoded.ranges.finished)


def test_a_bomb_is_not_unpacked() -> None:
    """What unpacks to more than any text may say is damaged, and found so after a bounded part of it."""
    bomb = deflate(bytes(100_000_000))
    text = _signed(bytes([RANGES]) + varint(START) + b"\x12\0" + bomb[:20_000])
    assert decode(text, START) is Unusable.BROKEN
    with pytest.raises(ValueError, match="too long"):
        inflate(bomb)


@given(lengths=runs)
def test_each_form_reads_what_it_writes(lengths: list[int]) -> None:
    """Every form gives back what it was given, and as much of it as it says fits."""
    whole = lengths[: len(lengths) // 2 * 2]
    for form in FORMS.values():
        written = form.write(whole)
        assert written is None or form.read(written) == whole
        cut = form.cut(whole, 20)
        assert cut[:-1] == whole[: max(len(cut) - 1, 0)]
        assert not cut or (body := form.write(cut)) is None or len(body) <= 20


def test_a_form_writes_no_more_than_may_be_unpacked() -> None:
    """What is compressed must unpack within the bound that reading has."""
    for form in FORMS.values():
        written = form.write([1, 1] * BODY_BYTES_MAX * 8)
        assert written is None or len(written) <= BODY_BYTES_MAX


def _signed(payload: bytes) -> str:
    return "ehk2." + base64.b85encode(payload + zlib.crc32(payload).to_bytes(4)).decode()


def test_of_many_ranges_a_bitmap_that_fits_is_taken() -> None:
    """The shortest form is looked for where there are few, and where a bitmap is too long."""
    bitmap = 2
    many = tuple((start, start + 1) for start in range(1, 20 * MANY_RANGES, 2))
    written = write_ranges(0, many, 3, 4_000)
    assert (written.body[0], written.dropped_offsets) == (bitmap, 0)
    assert written.body[2:] == FORMS[bitmap].write(to_runs(0, many))
    assert read_ranges(written.body, 0) == (many, 3)
    short = write_ranges(0, many, 3, len(written.body) - 1)
    assert len(short.body) < len(written.body)
    found = read_ranges(short.body, 0)
    assert found is not None
    assert found[1] == 3
    assert set(found[0]) <= set(many)
