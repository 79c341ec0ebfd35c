"""Which producer the next transaction has: the same one, or another with another epoch."""

from __future__ import annotations

import pytest

from ehkafka.transactions import loop as loop_module
from tests.transactions.loop_bench import Bench, aborting, retriable


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "AGAIN_S", 0.0)


@pytest.mark.parametrize("call", ["offsets", "commit"])
def test_a_producer_whose_call_failed_has_no_further_transaction(call: str) -> None:
    """A delayed request of this transaction could end the next one, or become a part of it."""
    for failure in (retriable(), aborting()):
        bench = Bench()
        bench.add(0, 1)
        bench.broker.fails = {call: [failure]}
        assert (bench.run(1) is None) is failure.args[0].retriable()
        assert bench.producer.opened == 1
        assert bench.run(2) is None
        assert (bench.visible, bench.producer.opened) == ("0 1", 2)


def test_a_producer_that_lost_its_broker_has_no_further_transaction() -> None:
    """It may wait for ever for a coordinator that it remembers."""
    bench = Bench()
    bench.add(0, 1)
    assert bench.run(1) is None
    bench.producer.is_disturbed = True
    assert bench.run(2) is None
    assert (bench.visible, bench.producer.opened) == ("0 1", 2)


def test_a_producer_that_is_not_disturbed_is_kept() -> None:
    """Another one costs a round trip to the coordinator."""
    bench = Bench()
    bench.add(0, 1, 2)
    assert [bench.run(end) for end in (1, 2, 3)] == [None] * 3
    assert bench.producer.opened == 1
