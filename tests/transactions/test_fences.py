"""A fenced producer: another process has its id, or its transaction took too long."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import FencedError
from ehkafka.events import TransactionProducerReplaced
from ehkafka.transactions import hanging
from ehkafka.transactions import loop as loop_module
from ehkafka.transactions.hanging import HangsError, RunningTime, call_within
from tests.transactions.loop_bench import Bench, aborting, fatal, retriable

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import KafkaException

SUSPENDED_S = 60.0


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what lets the clock go on without this process, as SIGSTOP does."""
    suspended_s = [0.0]
    timing = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(suspended_s), sleep=lambda _s: None)
    monkeypatch.setattr(hanging, "time", timing)
    monkeypatch.setattr(loop_module, "time", timing)
    return lambda: suspended_s.append(SUSPENDED_S)


def test_a_shared_id_that_another_process_has_ends_the_app() -> None:
    """One of this process alone is fenced for a transaction that took too long: the next producer goes on."""
    shared, own = Bench(is_id_shared=True), Bench()
    for bench in (shared, own):
        bench.add(0)
        bench.broker.fails = {"offsets": [fatal()]}
        assert bench.run(1) is not None
    assert isinstance(shared.fatal[0], FencedError)
    opened = shared.producer.opened
    assert shared.run(1) is not None
    assert shared.producer.opened == opened, "one more would fence the other process in turn"
    assert own.fatal == []
    assert isinstance(own.events[0], TransactionProducerReplaced)


def test_a_shared_id_that_is_fenced_for_a_transaction_that_took_too_long_goes_on() -> None:
    """This process ran all the time, so no other one has replaced it: the broker itself fences then."""
    bench = Bench(is_id_shared=True, timeout_s=0.0)
    bench.add(0)
    bench.broker.fails = {"commit": [fatal()]}
    assert bench.run(1) is not None
    assert bench.fatal == []
    assert bench.run(1) is None
    assert bench.visible == "0"


@pytest.mark.parametrize("first", [[], [retriable()]])
@pytest.mark.parametrize("call", ["offsets", "commit", "abort"])
def test_a_process_that_suspended_still_does_not_fence_the_one_that_replaced_it(
    call: str, first: list[KafkaException], suspend: Callable[[], None]
) -> None:
    """The suspension made the transaction long. A call that timed out then says nothing either."""
    bench = Bench(is_id_shared=True, timeout_s=10.0)
    bench.add(0)
    bench.broker.fails = {call: [*first, fatal()]}
    if call == "abort":
        bench.broker.fails["offsets"] = [aborting()]
    calls: list[str] = []

    def stop_here(name: str) -> None:
        if name == call and name not in calls:
            suspend()
        calls.append(name)

    bench.broker.on_call = stop_here
    assert bench.run(1) is not None
    assert isinstance(bench.fatal[0], FencedError)
    assert bench.run(1) is not None
    assert bench.producer.opened == 1, "another one would fence the process that has replaced this one"


def test_a_process_that_runs_on_after_a_suspension_gives_a_call_up_in_the_end(
    suspend: Callable[[], None],
) -> None:
    """The call may never succeed; by then the group has fenced a member that was replaced."""
    bench = Bench(is_id_shared=True, timeout_s=0.05)
    bench.add(0)
    bench.broker.fails = {"commit": [retriable()] * 1_000_000}
    bench.broker.on_call = lambda name: name == "commit" and bench.broker.calls.count(name) == 1 and suspend()
    assert bench.run(1) is not None
    assert bench.fatal == []
    bench.broker.fails = {}
    assert bench.run(1) is None
    assert bench.visible == "0"


def test_time_counts_while_the_process_runs() -> None:
    """A gap that is longer than a slow machine's starts it anew."""
    now_s = 100.0
    running = RunningTime(lambda: now_s)
    for now_s in (101.0, 102.5, 104.5):
        assert running.ran_s == now_s - 100.0
    now_s = 110.0
    assert running.ran_s == 0.0
    now_s = 111.0
    assert running.ran_s == 1.0
    assert running.began_s == 100.0


def test_a_call_does_not_hang_because_the_process_suspended_still(suspend: Callable[[], None]) -> None:
    """Its answer may be there already."""

    def answer() -> str:
        suspend()
        time.sleep(0.3)
        return "answer"

    assert call_within(answer, 10.0, lambda: False) == "answer"
    with pytest.raises(HangsError):
        call_within(lambda: time.sleep(0.5), 0.1, lambda: False)
