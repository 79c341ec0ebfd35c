"""The parts of process workers that need no process: batch sizes, frames, claims and errors."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.failure import pack_error, unpack_error
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.processes.size import BatchSize

if TYPE_CHECKING:
    from collections.abc import Iterator


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
