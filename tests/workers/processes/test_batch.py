"""The parts of process workers that need no process: lent records, batch sizes, frames and claims."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.lanes.decision import HoldHead
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.batch import Batch, BatchSize
from ehkafka.workers.processes.failure import pack_error, unpack_error
from ehkafka.workers.processes.option import Processes
from tests.kit.lane_bench import LaneBench

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_cut_leaves_lent_records_and_takes_those_behind() -> None:
    """What a holder may start unasked counts as started, so a drain finishes what lies below it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 b3 a4 b5")
    lane = bench.begin_key("a")
    assert [message.offset() for message in lane.lend(3)] == [0, 1, 2]
    bench.dispatcher.drain(assignment, below_started=False)

    assert [message.offset() for message in lane.messages()] == [0, 1, 2]
    assert assignment.returned_from == 3
    assert not bench.dispatcher.drained(assignment)


def test_a_drain_goes_up_to_the_last_lent_record() -> None:
    """Records of other keys below a lent one still run; the committed range gets no hole."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 b1 a2 b3")
    lane = bench.begin_key("a")
    lane.lend(2)
    bench.dispatcher.drain(assignment, below_started=True)

    assert assignment.drain_limit == 2


def test_nothing_is_lent_beyond_the_head_once_halted() -> None:
    """The drain has looked already; a follower would start unnoticed."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 b2")
    lane = bench.begin_key("a")
    [other] = bench.begin()
    bench.dispatcher.drain(assignment, below_started=True)

    assert [message.offset() for message in lane.lend(2)] == [0]
    assert len(other.lend(1)) == 1


def test_what_was_taken_back_comes_again_in_order() -> None:
    """A lane of whose lent records some ran and some came back goes on with the next one."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 b3 b4")
    returned: list[Any] = []
    batch = Batch(on_failure=lambda _lane, _error: HoldHead("held"), hand_in=returned.append)
    lanes = [bench.begin_key("a"), bench.begin_key("b")]
    for lane in lanes:
        batch.add(lane, lane.lend(9), 0)

    batch.keep_running(2)
    assert returned == [lanes[1]]
    assert (lanes[0].head.offset(), lanes[0].running) == (1, 1)
    batch.end(2)
    assert returned == [lanes[1], lanes[0]]
    assert lanes[0].running == 1  # until it is settled: a drain must not miss it
    assert [message.offset() for message in lanes[0].messages()] == [2]


def test_a_failure_in_mid_batch_stops_its_lane_alone() -> None:
    """What follows in its lane waits, whatever the child counts; the other lane ends."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1 a2 b3")
    returned: list[Any] = []
    batch = Batch(on_failure=lambda _lane, _error: HoldHead("held"), hand_in=returned.append)
    lanes = [bench.begin_key("a"), bench.begin_key("b")]
    for lane in lanes:
        batch.add(lane, lane.lend(9), 0)

    batch.fail(1, ValueError("no luck"))
    assert returned == [lanes[0]]
    batch.end(4)
    assert returned == lanes
    assert [message.offset() for message in lanes[0].messages()] == [1, 2]
    assert len(lanes[1]) == 0


def test_batches_grow_by_doubling_and_shrink_at_once() -> None:
    """Slow handlers get one record at a time, from the first slow batch on."""
    size = BatchSize(256, 0.02)
    sizes = []
    for _ in range(10):
        size.note(size.records, size.records * 10e-6)
        sizes.append(size.records)
    assert sizes == [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
    size.note(size.records, size.records * 0.05)
    assert size.records == 1


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Return a pipe."""
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_frames_are_whole_however_their_bytes_come(ends: tuple[int, int]) -> None:
    """A frame that is not there yet is none; two in one read are two."""
    read, write = ends
    reader = pipe.FrameReader(read)
    frame = pipe.HEAD.pack(3, pipe.DONE) + b"abc"
    os.write(write, frame[:5])
    assert reader.take() == []
    os.write(write, frame[5:] + frame + frame[:-1])
    assert [found.body for found in reader.take_until(time.monotonic() + 5)] == [b"abc", b"abc"]
    os.write(write, frame[-1:])
    assert reader.take() == [pipe.Frame(pipe.DONE, b"abc")]
    assert not reader.ended


def test_a_claim_belongs_to_one_side_only(ends: tuple[int, int]) -> None:
    """What the child took cannot be taken back, what came back cannot be taken."""
    read, write = ends
    os.set_blocking(read, False)
    claims = pipe.Claims(read, write)
    claims.offer(5)
    assert [claims.take_one(), claims.take_one()] == [True, True]
    assert claims.left() == 3
    assert claims.take_back() == 3
    assert not claims.take_one()
    assert claims.left() == 0


class _HopelessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __reduce__(self) -> Any:
        raise RuntimeError("no pickle")


@pytest.mark.parametrize(
    ("error", "is_exception"),
    [(_HopelessError(), True), (SystemExit(3), False), (KeyboardInterrupt(), False), (MemoryError(), True)],
)
def test_every_error_travels(error: BaseException, is_exception: bool) -> None:
    """What says nothing about the record stays that; nothing about an error can break the packing."""
    found = unpack_error(pack_error(error), 7)

    assert type(found).__name__ == type(error).__name__
    assert isinstance(found, Exception) == is_exception
    assert "In worker process 7" in str(found.__cause__)


@pytest.mark.parametrize(
    "options",
    [
        {"count": 0},
        {"count": True},
        {"count": 1001},
        {"batch_records_max": 0},
        {"batch_bytes_max": 1.5},
        {"batch_s": 0},
        {"batch_s": "1"},
        {"batch_s": float("nan")},
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    """With the value and what to use instead."""
    [(name, value)] = options.items()
    with pytest.raises(ConfigurationError, match=rf"Processes\({name}={value!r}\): use"):
        Processes(**options)
