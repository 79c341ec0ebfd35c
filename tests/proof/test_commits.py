"""What `__consumer_offsets` has is read, commits that go back or stand still are seen."""

from __future__ import annotations

import struct

import pytest

from ehkafka.progress.metadata import NOTHING_KNOWN, encode
from tests.proof.commit_log import CommitLog, Logged, decode
from tests.proof.node_faults import hash_of
from tests.proof.stalls import STALLED_S, Stalls
from tests.proof.violations import Violations


def text(words: str) -> bytes:
    """Return a text as Kafka writes it."""
    return struct.pack(">h", len(words)) + words.encode()


def key_of(group: str = "group-0", topic: str = "level-0", partition: int = 2, kind: int = 1) -> bytes:
    """Return the key of a commit."""
    return struct.pack(">h", kind) + text(group) + text(topic) + struct.pack(">i", partition)


def value_of(offset: int, words: str = "", version: int = 3) -> bytes:
    """Return the value of a commit, behind whose text are times."""
    head = struct.pack(">hq", version, offset) + (struct.pack(">i", 7) if version >= 3 else b"")
    count = len(words) + 1
    long_text = bytes([count & 0x7F | 0x80, count >> 7]) + words.encode()
    return head + (long_text if version >= 4 else text(words)) + struct.pack(">q", 1) + b"\0"


class Message:
    """A message of the topic."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self.key, self.value = lambda: key, lambda: value
        self.timestamp, self.partition, self.offset = lambda: (1, 0), lambda: 0, lambda: 0


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_each_version_of_a_commit(version: int) -> None:
    """The text is behind the offset, or behind a leader's epoch; the newest writes its length otherwise."""
    words = "w" * 200
    found = decode(key_of(), value_of(1 << 40, words, version))
    assert found == Logged("group-0", "level-0", 2, 1 << 40, words)


def test_what_is_no_commit() -> None:
    """The topic has groups' members, too, and commits that were taken away."""
    assert decode(key_of(kind=2), value_of(1)) is None
    assert decode(key_of(), None) is None
    assert decode(b"", b"") is None
    with pytest.raises(ValueError, match="version 5"):
        decode(key_of(), value_of(1, version=5))


@pytest.mark.parametrize(
    ("commits", "violations"),
    [
        ([value_of(5), value_of(5), value_of(9), None], {}),
        ([value_of(5), value_of(4), value_of(9)], {"back": 1}),
        ([value_of(5), value_of(9, "hello")], {"text": 1}),
        ([value_of(5, (encode(5, NOTHING_KNOWN, ((7, 9),), None, 64).text or "") + "\0")], {}),
        ([value_of(5, encode(5, NOTHING_KNOWN, ((7, 9),), None, 64).text or "")], {}),
    ],
)
def test_what_is_wrong_with_all_commits_of_a_group(
    commits: list[bytes | None], violations: dict[str, int]
) -> None:
    """Those of others may do as they like."""
    found = Violations()
    log = CommitLog(1, found)
    log.take(Message(key_of(), value_of(3)))
    for value in commits:
        log.take(Message(key_of(), value))
        log.take(Message(key_of("group-1"), value))
        log.take(Message(key_of(topic="level-1"), value))
    assert found.counts == violations, found.shown
    assert log.commits == 1 + sum(value is not None for value in commits)


def test_a_commit_that_stands_still() -> None:
    """The time counts in which there is something to commit, and all runs; each stall is reported once."""
    stalls = Stalls(2)
    for at_s in range(0, 200, 5):
        assert not stalls.check(at_s, [5, 9], [9, 9], is_well=at_s % 10 == 0)
    reported = [stalls.check(200 + at_s, [5, 9], [9, 9], is_well=True) for at_s in range(0, 100, 5)]
    assert [one for one in reported if one] == [[(0, 5)]]
    assert stalls.longest_s >= STALLED_S
    reported = [stalls.check(300 + at_s, [6, 9], [9, 12], is_well=True) for at_s in range(0, 126, 5)]
    assert reported == [[]] * 24 + [[(0, 6), (1, 9)], []]


def test_a_long_time_between_two_looks_is_no_stall() -> None:
    """A broker did not answer."""
    stalls = Stalls(1)
    for at_s in (0, 500, 1000):
        assert not stalls.check(at_s, [5], [9], is_well=True)


@pytest.mark.parametrize(
    ("name", "number"), [("hello", 99162322), ("Hello World!", 969099747), ("polygenelubricants", 0)]
)
def test_the_hash_that_finds_a_coordinator(name: str, number: int) -> None:
    """As Java's `String.hashCode`, without its sign."""
    assert hash_of(name) == number
