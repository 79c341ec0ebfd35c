"""Handlers whose keys are not read while calls are quick: order holds, and what is shown has its key."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.lanes.unread import Unread
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 6_000
KEYS = 40


class Quick:
    """Quick handlers; each waits at the value `bad` until the gate is open, and fails once at `fails`."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.handled: list[int] = []

    def _end(self, record: ehkafka.Record) -> None:
        if record.value() == b"fails" and record.attempt == 1:
            raise ValueError("once")
        self.handled.append(record.offset())

    def handle(self, record: ehkafka.Record) -> None:
        """Run on a thread."""
        if record.value() == b"bad":
            assert self.gate.wait(60.0)
        self._end(record)

    async def handle_async(self, record: ehkafka.Record) -> None:
        """Run in a task."""
        while record.value() == b"bad" and not self.gate.is_set():  # noqa: ASYNC110 - a test's gate
            await asyncio.sleep(0.005)
        self._end(record)


@pytest.fixture
def quick() -> Iterator[Quick]:
    """Return the handlers; their gate is open at the end."""
    quick = Quick()
    yield quick
    quick.gate.set()


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many records were received each time without their keys."""
    received: list[int] = []
    receive = Unread.receive

    def noted(self: Unread, epoch: Any, messages: Any, sizes: Any) -> None:
        received.append(len(messages))
        receive(self, epoch, messages, sizes)

    monkeypatch.setattr(Unread, "receive", noted)
    return received


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("handler", ["handle", "handle_async"])
def test_failing_and_slow_calls_among_quick_ones_delay_their_keys_alone(
    lab: Any, quick: Quick, unread: list[int], handler: str, workers: int
) -> None:
    """One record in five hundred fails once, and with other workers there one hangs: each is handled once."""
    hangs = RECORDS // 2 if workers > 1 else RECORDS
    values = [b"fails" if n % 500 == 250 else b"bad" if n == hangs else b"x" for n in range(RECORDS)]
    keys = [n * 7919 % KEYS for n in range(RECORDS + 1)]
    lab.broker.produce(
        "t", [(b"k%d" % key, value) for key, value in zip(keys, values, strict=False)], partition=0
    )
    retry = ehkafka.Retry(attempts=2, first_s=0.01, jitter=0)
    app = lab.start(getattr(quick, handler), workers=workers, retry=retry)
    behind = [n for n in range(hangs, RECORDS) if keys[n] == keys[hangs]]
    wait_until(lambda: len(quick.handled) == RECORDS - len(behind))
    assert not set(behind) & set(quick.handled)
    quick.gate.set()
    wait_until(lambda: lab.committed() == RECORDS)
    app.stop()
    assert sum(unread) > 0
    assert sorted(quick.handled) == list(range(RECORDS))
