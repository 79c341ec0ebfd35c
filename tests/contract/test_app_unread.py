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


IN_BOTH = pytest.mark.parametrize("handler", ["handle", "handle_async"])


def _produce(lab: Any, value: Any = lambda _number: b"x", records: int = RECORDS) -> None:
    lab.broker.produce("t", [(b"k%d" % (n * 7919 % KEYS), value(n)) for n in range(records)], partition=0)


@IN_BOTH
@pytest.mark.parametrize("workers", [1, 8])
def test_failures_are_retried_and_only_their_keys_wait(
    lab: Any, quick: Quick, unread: list[int], handler: str, workers: int
) -> None:
    """One record in five hundred fails once; each key's records are handled in order, each once."""
    _produce(lab, lambda number: b"fails" if number % 500 == 250 else b"x")
    app = lab.start(
        getattr(quick, handler), workers=workers, retry=ehkafka.Retry(attempts=2, first_s=0.01, jitter=0)
    )
    wait_until(lambda: lab.committed() == RECORDS)
    app.stop()
    assert sum(unread) > 0
    assert sorted(quick.handled) == list(range(RECORDS))


@IN_BOTH
def test_a_slow_call_among_quick_ones_delays_its_key_alone(
    lab: Any, quick: Quick, unread: list[int], handler: str
) -> None:
    """What waits behind it in the one inbox is given to other workers, by its keys."""
    _produce(lab, lambda number: b"bad" if number == RECORDS // 2 else b"x")
    app = lab.start(getattr(quick, handler), workers=8)
    slow = RECORDS // 2 * 7919 % KEYS
    behind = [n for n in range(RECORDS // 2, RECORDS) if n * 7919 % KEYS == slow]
    wait_until(lambda: len(quick.handled) == RECORDS - len(behind))
    assert not set(behind) & set(quick.handled)
    quick.gate.set()
    wait_until(lambda: lab.committed() == RECORDS)
    app.stop()
    assert sum(unread) > 0
