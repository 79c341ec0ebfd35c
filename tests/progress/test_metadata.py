"""What a commit says of its log and group: carried whole, first to have room, never believed when damaged."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ehkafka.progress.metadata import (
    MOVED,
    ON_SPARK,
    TEXT_BYTES_MAX,
    CommitMetadata,
    LogFacts,
    Unusable,
    decode,
    encode,
    facts_of,
    facts_word,
    moved,
    without_facts,
)
from ehkafka.progress.ranges import SavedRanges

OFFSET_MAX = 2**63 - 1
# Of a year far ahead.
MILLISECONDS_MAX = 2**48 - 1
TEXT_BYTES_OF_FACTS = 64
FULL = LogFacts(32, bytes(range(16)), (998, 1_790_000_000_000), "reset-2026-11-23")
FEW = ((1_001, 1_009), (1_020, 1_300))

next_offsets = st.one_of(st.integers(1, 300), st.integers(1, OFFSET_MAX))
names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}\Z")


@st.composite
def commits(draw: Any, *, named: bool = True) -> tuple[int, LogFacts]:
    """Return a next_offset and facts that go with it."""
    next_offset = draw(next_offsets)
    witnesses = st.tuples(
        st.integers(max(0, next_offset - 2**35), next_offset - 1), st.integers(0, MILLISECONDS_MAX)
    )
    facts = LogFacts(
        draw(st.none() | st.integers(1, 2**21 - 1)),
        draw(st.none() | st.binary(min_size=16, max_size=16)),
        draw(st.none() | witnesses),
        draw(st.none() | names) if named else None,
    )
    return next_offset, facts


@given(commit=commits(), is_complete=st.booleans())
def test_facts_come_back_whole(commit: tuple[int, LogFacts], *, is_complete: bool) -> None:
    """Whatever is known is read back, also where nothing is finished above the commit."""
    next_offset, facts = commit
    text = encode(next_offset, facts, (), None, 1_023, is_complete=is_complete).text
    if facts == LogFacts():
        assert text is None
        return
    assert text is not None
    assert text.isascii()
    assert decode(text, next_offset) == CommitMetadata(facts, SavedRanges(is_complete=is_complete))
    assert facts_of(next_offset, text) == facts


@given(commit=commits(named=False))
@example((OFFSET_MAX, LogFacts(2**21 - 1, b"\xff" * 16, (OFFSET_MAX - 2**35, MILLISECONDS_MAX))))
def test_facts_without_a_name_take_64_bytes_at_most(commit: tuple[int, LogFacts]) -> None:
    """The partition count, the topic's id and the witness, with any offset: what is left is for ranges."""
    next_offset, facts = commit
    assert len(encode(next_offset, facts, (), None, TEXT_BYTES_MAX).text or "") <= TEXT_BYTES_OF_FACTS


def test_ranges_get_the_room_that_facts_leave() -> None:
    """Both fit into 1023 bytes; where the limit is small facts stay, and ranges go."""
    both = decode(encode(1_000, FULL, FEW, 7, 1_023).text or "", 1_000)
    assert both == CommitMetadata(FULL, SavedRanges(FEW, 7, is_complete=True))
    facts_bytes = len(encode(1_000, FULL, (), None, 1_023).text or "")
    alone = encode(1_000, FULL, FEW, 7, facts_bytes)
    assert (alone.kept_offsets, alone.dropped_offsets) == (0, 288)
    assert decode(alone.text or "", 1_000) == CommitMetadata(FULL, SavedRanges(is_complete=False))


def test_the_smaller_the_limit_the_less_is_said() -> None:
    """The witness goes first, then the topic's id, the partition count, and a reset's name last."""
    kept = []
    for bytes_max in range(120, -1, -1):
        text = encode(1_000, FULL, (), None, bytes_max).text
        assert len(text or "") <= bytes_max
        facts = facts_of(1_000, text)
        if not kept or kept[-1] != facts:
            kept.append(facts)
    assert kept == [
        FULL,
        FULL._replace(witness=None),
        FULL._replace(witness=None, topic_id=None),
        LogFacts(reset=FULL.reset),
        LogFacts(),
    ]
    assert encode(1_000, FULL, FEW, 7, 0) == (None, 0, 288)


@pytest.mark.parametrize(
    "facts",
    [
        LogFacts(first_partitions=0),
        LogFacts(first_partitions=2**21),
        LogFacts(topic_id=b"short"),
        LogFacts(witness=(1_000, 1)),
        LogFacts(witness=(-1, 1)),
        LogFacts(witness=(999, 2**48)),
        LogFacts(reset="no name"),
        LogFacts(reset=""),
    ],
)
def test_what_cannot_be_said_is_left_out(facts: LogFacts) -> None:
    """A fact out of its bounds, such as a witness that is not below the commit, is no fact."""
    assert encode(1_000, facts, (), None, 1_023).text is None


@given(commit=commits(), data=st.data())
def test_damaged_facts_are_never_believed(commit: tuple[int, LogFacts], data: st.DataObject) -> None:
    """With a character changed, cut anywhere, or with another offset, a text says nothing."""
    next_offset, facts = commit
    starts = data.draw(st.lists(st.integers(1, 10_000), max_size=50, unique=True).map(sorted))
    ranges = tuple((next_offset + 2 * start, next_offset + 2 * start + 1) for start in starts)
    text = encode(next_offset, facts, ranges, 3, 1_023).text
    if text is None:
        return
    assert isinstance(decode(text[: data.draw(st.integers(0, len(text) - 1))], next_offset), Unusable)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(max_codepoint=300).filter(lambda c: c != text[place]))
    assert isinstance(decode(text[:place] + other + text[place + 1 :], next_offset), Unusable)
    assert decode(text, next_offset + 1) is Unusable.OTHER_OFFSET


@given(known=st.integers(0, 255), body=st.binary(max_size=80))
@example(1, b"\x01\x00")  # no partitions at all
@example(4, b"\x01\x01" + bytes(6))  # a witness below offset 0
@example(8, b"\x01\x03a b")  # a name with a space
@example(8, b"\x01\xff" + b"a" * 80)  # a name without an end
def test_forged_facts_are_within_their_bounds_or_no_facts(known: int, body: bytes) -> None:
    """A forged text with a right checksum gives facts that can be true, or a typed answer."""
    signed = bytes([known]) + body
    text = "ehk2." + base64.b85encode(signed + zlib.crc32(signed).to_bytes(4)).decode()
    for next_offset in (1, 1_000):
        decoded = decode(text, next_offset)
        if isinstance(decoded, Unusable):
            continue
        first, topic_id, witness, reset = decoded.facts
        assert first is None or first > 0
        assert topic_id is None or len(topic_id) == 16
        assert witness is None or (0 <= witness[0] < next_offset and witness[1] >= 0)
        assert reset is None or (reset.isprintable() and 0 < len(reset) <= 64)


@given(text=st.text(max_size=200))
@example("ehk2.")
@example("~" * 30_000)
@example("0" * 30_000)
@example("ehk2.moved." + "~" * 40_000)
@example("ehk2.moved." + "." * 40_000)
@example("ehk2.spark." * 10_000)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    """Hostile text, also behind the words of commits from outside."""
    for hostile in (text, f"ehk2.{text}", f"{MOVED}.{text}", f"{ON_SPARK}{text}"):
        without_facts(hostile)
        decoded = decode(hostile, 10)
        assert isinstance(decoded, Unusable) or decoded.facts == LogFacts()


@given(commit=commits(), data=st.data())
def test_a_commit_from_outside_says_facts_too(commit: tuple[int, LogFacts], data: st.DataObject) -> None:
    """They are read back with their own offset only; a damaged one still says that the group was moved."""
    next_offset, facts = commit
    text = moved(next_offset, facts)
    assert decode(text, next_offset) == CommitMetadata(facts, drops_ranges=True)
    assert decode(text, next_offset + 1) == CommitMetadata(drops_ranges=True)
    cut = data.draw(st.integers(len(MOVED), len(text)))
    assert decode(text[:cut], next_offset) in (
        CommitMetadata(drops_ranges=True),
        CommitMetadata(facts, drops_ranges=True),
    )


def test_facts_are_no_reason_for_a_commit() -> None:
    """A text without its facts is the same whatever they are; ranges and marks are compared."""
    plain = encode(1_000, LogFacts(), FEW, 7, 1_023).text
    assert without_facts(plain) == without_facts(encode(1_000, FULL, FEW, 7, 1_023).text)
    assert without_facts(plain) != without_facts(encode(1_000, FULL, FEW[:1], 7, 1_023).text)
    assert without_facts(encode(1_000, FULL, (), None, 1_023).text) == without_facts(None) == b""
    assert without_facts("theirs") == b"theirs"
    word = facts_word(1_000, FULL)
    marks = [f"{ON_SPARK}{one}.-.host" for one in (word, "-")]
    assert without_facts(marks[0]) == without_facts(marks[1]) != without_facts(MOVED)
    assert without_facts(marks[0]) != without_facts(f"{ON_SPARK}{word}.c1.host")
