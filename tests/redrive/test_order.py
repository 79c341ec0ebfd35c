"""The order in which letters go home, and below which offsets all is done."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.headers.size import size_of
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.output import PARTS, SOURCE
from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.letters.letter import letter_origin
from ehkafka.redrive import order
from ehkafka.redrive.order import AHEAD_RECORDS_MAX, as_written
from ehkafka.redrive.redrive import Redrive, RedriveRun
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

    from ehkafka.records import Headers

HOME = TopicPartition("t", 0)
ORIGIN: Headers = [("ehkafka-origin-topic", b"t"), ("ehkafka-origin-partition", b"0")]


class Written(SimulatedMessage):
    """A record with the time of its writing in its value."""

    def timestamp(self) -> tuple[int, int]:
        """Return that time."""
        return 1, int(self.value() or 0)


def letter(partition: int, offset: int, at_ms: int, origin: int | None = None) -> Record:
    """Return a letter."""
    headers = [*ORIGIN, *([] if origin is None else [("ehkafka-origin-offset", b"%d" % origin)])]
    return Record(Written("dead", partition, offset, value=b"%d" % at_ms, headers=headers))


class Reader:
    """Yields the batches it was given, and knows which partitions end with which."""

    def __init__(self, partitions: int, batches: Iterable[list[Record]], ends: dict[int, int]) -> None:
        """`ends` has the number of the batch with which a partition ends, where that is not the last one."""
        self._batches = list(batches)
        last = len(self._batches) - 1
        self._ends = {number: ends.get(number, last) for number in range(partitions)}
        self.unread = {TopicPartition("dead", number): 0 for number in range(partitions)}
        self.held: list[set[int]] = []

    def batches(self) -> Iterator[list[Record]]:
        """Yield them, and let partitions end."""
        for number, batch in enumerate(self._batches):
            for partition in [one for one in self.unread if self._ends[one.partition] <= number]:
                del self.unread[partition]
            yield batch

    def hold(self, partitions: set[TopicPartition]) -> None:
        """Note what is held."""
        self.held.append({one.partition for one in partitions})


def taken(reader: Any) -> list[list[tuple[int, int]]]:
    """Return which letters go home after each batch."""
    found: list[list[tuple[int, int]]] = [[]]
    for one in as_written(reader):
        if one is None:
            found.append([])
        else:
            found[-1].append((one[0].partition(), one[0].offset()))
    return found[:-1]


def test_letters_go_in_the_order_of_their_writing() -> None:
    """One that nothing can precede any more, and no other."""
    batches = [[letter(0, 0, 10), letter(0, 1, 30)], [letter(1, 0, 20)], []]
    assert taken(Reader(2, batches, {1: 2})) == [[], [(0, 0), (1, 0)], [(0, 1)]]
    assert taken(Reader(2, batches, {1: 1})) == [[], [(0, 0), (1, 0), (0, 1)], []]


def test_of_the_same_time_the_origins_order_decides() -> None:
    """Brokers and clients write times in milliseconds."""
    assert taken(Reader(2, [[letter(0, 0, 10, 7), letter(1, 0, 10, 6)]], {})) == [[(1, 0), (0, 0)]]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), max_size=40),
    st.lists(st.integers(0, 8), max_size=8),
)
def test_a_partitions_order_is_kept_whatever_its_times_are(
    written: list[tuple[int, int]], sizes: list[int]
) -> None:
    """Clocks of two members may differ; each letter goes once."""
    offsets = [0, 0, 0]
    letters = []
    for partition, at_ms in written:
        letters.append(letter(partition, offsets[partition], at_ms))
        offsets[partition] += 1
    batches = [[letters.pop(0) for _ in range(min(size, len(letters)))] for size in sizes]
    out = [one for batch in taken(Reader(3, [*batches, letters], {})) for one in batch]
    for partition in range(3):
        assert [o for p, o in out if p == partition] == list(range(offsets[partition]))


def test_a_partition_that_is_far_ahead_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded, in records and in bytes; one that is read to its end needs no bound."""
    first = [letter(0, offset, offset) for offset in range(AHEAD_RECORDS_MAX - 1)]
    batches = [first, [letter(0, AHEAD_RECORDS_MAX - 1, AHEAD_RECORDS_MAX)], [letter(1, 0, 5_000)], []]
    reader = Reader(2, batches, {})
    assert list(map(len, taken(reader))) == [0, 0, AHEAD_RECORDS_MAX, 1]
    assert reader.held == [set(), {0}, set(), set()]
    ended = Reader(2, batches, {0: 1})
    taken(ended)
    assert ended.held == [set(), set(), set(), set()]
    monkeypatch.setattr(order, "AHEAD_BYTES_MAX", 2 * size_of(letter(0, 0, 10)))
    large = Reader(2, [[letter(0, 0, 10)], [letter(0, 1, 10)], [letter(1, 0, 20)]], {})
    taken(large)
    assert large.held == [set(), {0}, set()]


@given(st.permutations(range(12)), st.integers(0, 12))
def test_a_commit_is_exactly_below_the_lowest_letter_on_its_way(order: list[int], answered: int) -> None:
    """For every order of the answers, at every moment; over holes of the log, and letters that stay."""
    commits: list[Any] = []

    class Member:
        def commit(self, *, offsets: Any, asynchronous: bool) -> None:
            assert not asynchronous
            commits.extend(offsets)

    redrive = Redrive(target=Target(endpoint=Endpoint.kafka("127.0.0.1:1")), topic="dead")
    member: Any = Member()
    run = RedriveRun(redrive, member, lambda _count: None)
    first, second = TopicPartition("dead", 0), TopicPartition("dead", 1)
    run._assigned, run._epochs = [2], {one: Epoch(one, 0, {}) for one in (first, second)}
    run._next, run._committed = {first: 0, second: 5}, {first: 0, second: 5}
    for number in range(12):
        record = letter(0, 2 * number, 0)
        run._take_up((record, letter_origin(record)))
    stays = Record(SimulatedMessage("dead", 0, 29))
    run._take_up((stays, None))
    added = list(run._sender.outputs.added)
    outputs = [added[place : place + PARTS] for place in range(0, len(added), PARTS)]
    for number in order[:answered]:
        outputs[number][SOURCE].acknowledged()
    left = [outputs[number] for number in sorted(order[answered:])]
    run._sender.outputs.added = deque(part for output in left for part in output)
    run._commit()
    lowest = min((2 * number for number in order[answered:]), default=30)
    assert [(one.partition, one.offset) for one in commits] == ([(0, lowest)] if lowest else [])
    assert run._count.to == ({HOME: answered} if answered else {})
    assert run._count.foreign == 1
    run._commit()
    assert len(commits) == bool(lowest)
