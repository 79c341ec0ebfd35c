"""Streams: several chunks of a partition at once, and what happens to a key that comes again."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, cast

import pytest

from ehkafka.lanes.chunk import Chunk, is_at_end
from ehkafka.lanes.streams import READY_SHARE, READY_SHARE_MIN, RECORDS_MAX, Streams
from tests.kit.lane_bench import LaneBench, overtake

if TYPE_CHECKING:
    from ehkafka.lanes.lane import Lane

MANY = " ".join(f"{letter}{offset}" for offset, letter in enumerate(string.ascii_letters))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> LaneBench:
    """A bench whose dispatcher makes streams of two records, however few there are."""
    monkeypatch.setattr("ehkafka.lanes.streams.ENOUGH_RECORDS", 0.001)
    made = LaneBench(express=True)
    streams(made).records_max = streams(made)._first_max = 2
    return made


def streams(bench: LaneBench) -> Streams:
    """Return what makes them."""
    express = bench.dispatcher.express
    assert isinstance(express, Streams)
    return express


def begin(bench: LaneBench, records: int) -> Chunk:
    """Begin a stream and start so many of its records."""
    stream = bench.dispatcher.begin()
    assert isinstance(stream, Chunk)
    assert len(start(stream, records)) == records
    return stream


def start(stream: Chunk, records: int = 1_000) -> list[int]:
    """Start so many records of a stream, or all; return their offsets."""
    assert stream.iterator is not None
    return [message.offset() for _, message in zip(range(records), stream.iterator, strict=False)]


def hand_in(bench: LaneBench, stream: Chunk) -> None:
    """Hand a stream in."""
    bench.settle(cast("Lane", stream))


def test_a_list_iterator_tells_whether_it_has_found_the_end() -> None:
    """It yields what was appended before that, and nothing afterwards."""
    items = [1]
    iterator = iter(items)
    assert next(iterator) == 1
    assert not is_at_end(iterator)
    items.append(2)
    assert next(iterator) == 2
    assert next(iterator, None) is None
    assert is_at_end(iterator)
    items.append(3)
    assert next(iterator, None) is None


def test_a_key_that_comes_again_goes_to_the_end_of_its_stream(bench: LaneBench) -> None:
    """Where it would have to wait for that stream anyway: no lane is made."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 1)
    bench.receive(assignment, "a2 b3 a4")
    assert not assignment.lanes
    assert start(stream) == [1, 2, 3, 4]
    hand_in(bench, stream)
    assert assignment.watermark() == 5
    assert assignment.finished_records == 5
    assert bench.dispatcher.backlog_bytes == 0
    assert bench.is_empty()


def test_where_a_worker_has_seen_the_end_the_key_gets_a_lane_behind(bench: LaneBench) -> None:
    """Its worker never looks again: the record would be lost, and the commit with it."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 2)
    assert stream.iterator is not None
    assert next(stream.iterator, None) is None
    bench.receive(assignment, "b2")
    assert bench.dispatcher.begin() is None
    assert [message.offset() for message in stream.messages] == [0, 1]
    assert stream.keys == [b"a", b"b"]
    hand_in(bench, stream)
    assert assignment.watermark() == 2
    lane = bench.dispatcher.begin()
    assert lane is not None
    assert lane.head is not None
    assert lane.head.offset() == 2


def test_a_hot_key_does_not_keep_its_stream_for_ever(bench: LaneBench) -> None:
    """Its worker comes back now and then, and what finished is counted."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 1)
    bench.receive(assignment, " ".join(f"a{offset}" for offset in range(2, RECORDS_MAX + 5)))
    assert len(stream) == RECORDS_MAX
    assert [len(lane) for lane in assignment.lanes.values()] == [5]


def test_a_stream_that_is_ended_early_gives_up_what_came_later(bench: LaneBench) -> None:
    """In order, each behind those of its key."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 1)
    bench.receive(assignment, "b2 a3 b4")
    lane = bench.dispatcher.end_early(stream)
    assert lane is not None
    assert [m.offset() for m in lane.messages()] == [0, 3]
    assert [m.offset() for m in assignment.lanes[b"b"].messages()] == [1, 2, 4]


def test_what_a_handler_changes_of_a_later_record_is_known(bench: LaneBench) -> None:
    """Handlers of messages are given the engine's own: what each was is noted before it is handled."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = bench.dispatcher.begin()
    assert isinstance(stream, Chunk)
    stream.remember()
    bench.receive(assignment, "a2")
    assert start(stream) == [0, 1, 2]
    assert stream.received is not None
    assert [stream.received.of(place, stream.messages[place]).key() for place in range(3)] == [
        b"a",
        b"b",
        b"a",
    ]


def test_what_comes_while_its_worker_notes_the_first_ones_is_noted(bench: LaneBench) -> None:
    """The worker has no lock: a record may come between its copy and its note."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = bench.dispatcher.begin()
    assert isinstance(stream, Chunk)

    class Late(list):  # type: ignore[type-arg]
        """Receives one more record once it was copied."""

        def __getitem__(self, index: object) -> object:
            found = super().__getitem__(index)  # type: ignore[index]
            if len(self) == 2 and index == slice(None):
                bench.receive(assignment, "a2")
            return found

    stream.messages = Late(stream.messages)
    stream.line_up()
    stream.remember()
    assert stream.received is not None
    assert stream.received.of(2, stream.messages[2]).key() == b"a"


def test_many_streams_are_made_once_few_are_left(bench: LaneBench) -> None:
    """Not one whenever a worker comes back: in bulk a record costs half."""
    streams(bench).workers = 20
    assignment = bench.assign()
    bench.receive(assignment, MANY)
    ready = bench.dispatcher.ready
    assert len(ready) == READY_SHARE * 20 + 1
    while len(ready) > READY_SHARE_MIN * 20 + 1:
        made = len(ready)
        begin(bench, 1)
        bench.settle()
        assert len(ready) == made - 1
    begin(bench, 1)
    bench.settle()
    assert len(ready) == READY_SHARE * 20 + 1


def test_partitions_share_what_is_made_at_once(bench: LaneBench) -> None:
    """One with much to do does not take all places."""
    parts = [bench.assign(number) for number in range(3)]
    streams(bench).workers = 1  # one stream is ready, and the rest waits
    for assignment in parts:
        bench.receive(assignment, MANY)
    streams(bench).workers = 20
    begin(bench, 1)
    bench.settle()
    assert {stream.assignment for stream in bench.dispatcher.ready} == set(parts)


def test_where_keys_are_few_each_gets_a_stream_of_its_own(bench: LaneBench) -> None:
    """Two keys in one stream would occupy one worker of ten."""
    streams(bench).workers, streams(bench)._first_max = 10, 1
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 b3")
    assert [one.keys for one in bench.dispatcher.ready] == [[b"a", b"a"], [b"b", b"b"]]
    assert not assignment.lanes


def test_where_keys_are_many_streams_begin_with_more_and_more_of_them(bench: LaneBench) -> None:
    """As long as all workers have one, and some stand ready."""
    streams(bench).workers = 4
    streams(bench).records_max, streams(bench)._first_max = 8, 1
    assignment = bench.assign()
    bench.receive(assignment, MANY)
    begun = []
    while (one := bench.dispatcher.begin()) is not None:
        assert isinstance(one, Chunk)
        begun.append(one)
        bench.settle()
    lengths = [len(one) for one in begun]
    assert lengths[:4] == [1, 1, 1, 1]
    assert lengths == sorted(lengths[:-1]) + lengths[-1:]
    assert max(lengths) == 8


def test_a_stream_of_several_keys_grows_no_further_while_workers_have_none(bench: LaneBench) -> None:
    """Its other keys would wait though somebody could run them."""
    streams(bench).workers = 10
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 1)
    streams(bench)._first_max = 2
    bench.receive(assignment, "a2 b3 a4")
    assert len(stream) == 2
    assert set(assignment.lanes) == {b"a", b"b"}


def test_a_record_that_its_worker_ran_at_once_is_not_given_to_another(bench: LaneBench) -> None:
    """Between its append and the look whether the worker has seen the end, the worker may have run it."""
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1")
    stream = begin(bench, 1)
    overtake(stream)
    bench.receive(assignment, "a2")
    assert [message.offset() for message in stream.messages] == [0, 1, 2]
    assert not assignment.lanes
    hand_in(bench, stream)
    assert bench.is_empty()
    assert assignment.watermark() == 3
