"""The parts of process workers that need no process: batch sizes, settings, errors, what a call sends."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.workers.processes.failure import pack_error, unpack_error
from ehkafka.workers.processes.option import Processes


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
