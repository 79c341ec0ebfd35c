"""A lane handed in while another thread has the lock is settled by that thread; mutants forget it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import TopicPartition
from ehkafka.workers.exchange import Exchange
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.lanes.assignment import Assignment

PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


def _hand_in_during(exchange: Exchange, dispatcher: Dispatcher) -> None:
    """Let another worker hand in its lane and fail to get the lock."""
    lane = dispatcher.begin()
    assert lane is not None
    lane.advance()
    exchange.returned.append(lane)
    worker = threading.Thread(target=exchange.settle)
    worker.start()
    worker.join(LIMIT_S)
    assert not worker.is_alive()


def _with_two_lanes() -> tuple[Exchange, Dispatcher, Assignment]:
    dispatcher = Dispatcher()
    exchange = Exchange(dispatcher, time.monotonic)
    assignment = dispatcher.assign(PARTITION, 1)
    batch = [SimulatedMessage("t", 0, offset, key) for offset, key in enumerate([b"a", b"b"])]
    dispatcher.receive(assignment, batch, [b"a", b"b"], 0.0)
    return exchange, dispatcher, assignment


def settled_behind_a_worker(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Hand a lane in while another worker settles its own; tell whether that one settled both."""
    exchange, dispatcher, assignment = _with_two_lanes()
    settle, first = dispatcher.settle, [True]

    def interrupted(lanes: Any, now_s: float) -> None:
        settle(lanes, now_s)
        if first.pop() if first else False:
            _hand_in_during(exchange, dispatcher)

    monkeypatch.setattr(dispatcher, "settle", interrupted)
    lane = dispatcher.begin()
    assert lane is not None
    lane.advance()
    exchange.returned.append(lane)
    exchange.settle()
    return not exchange.returned and not assignment.lanes


def settled_behind_the_poll_thread() -> bool:
    """Hand a lane in while the poll thread has the lock; tell whether it settled it on its way out."""
    exchange, dispatcher, assignment = _with_two_lanes()
    with exchange.locked():
        _hand_in_during(exchange, dispatcher)
        _hand_in_during(exchange, dispatcher)
    return not exchange.returned and not assignment.lanes


def test_a_lane_handed_in_while_the_lock_is_taken_is_settled_by_its_holder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits for the lock, and nothing waits for the next look: the holder looks again."""
    assert settled_behind_a_worker(monkeypatch)
    assert settled_behind_the_poll_thread()


def test_mutant_a_settling_worker_does_not_look_again(
    monkeypatch: pytest.MonkeyPatch, mutate: Callable[..., None]
) -> None:
    """A lane handed in behind its back stays where it is."""
    mutate(
        Exchange,
        "settle",
        "while (self.returned or self._answers or self._is_short) and",
        "if self.returned and",
    )
    assert not settled_behind_a_worker(monkeypatch)


def test_mutant_the_poll_thread_does_not_look_again(mutate: Callable[..., None]) -> None:
    """The same behind the poll thread."""
    from contextlib import contextmanager  # noqa: PLC0415

    @contextmanager
    def locked(self: Exchange) -> Iterator[Dispatcher]:
        with self._lock:
            self._settle_returned()
            yield self.dispatcher

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exchange, "locked", locked)
        assert not settled_behind_the_poll_thread()
