"""`scripts/bench`: its rows fit what they call, and what it says of the CPU and of bytes is so."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports one of the benchmark's modules."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return lambda name: importlib.import_module(f"_bench_{name}")


@pytest.mark.parametrize("quick", [True, False])
def test_each_row_calls_a_measurement_with_what_it_takes(bench: Any, quick: bool) -> None:
    """A wrong option would show after half an hour only; each topic is one that is filled, or live."""
    rows, topics = bench("rows").table(quick=quick, minutes=0.2, size=1.0)
    measurements, row_module = bench("work").MEASUREMENTS, bench("row")
    for row in rows:
        for name, side in row.sides:
            given = {"bootstrap": "", "topic": side.topic, **side.options}
            if side.counts_bytes:
                given["log_bytes_per_record"] = 1.0
            inspect.signature(measurements[side.measurement]).bind(**given)
            assert side.topic in {*topics, row_module.LIVE}, (row.work, name)
    assert len({row.work for row in rows}) == len(rows)


def sample(bench: Any, at_s: float, spent_s: dict[int, float], *, busy_s: float, stolen_s: float) -> Any:
    """Return a sample in which this process has started 10 (which has started 11) and 20; 30 is another's."""
    children = {os.getpid(): [10, 20], 10: [11], 1: [os.getpid(), 30]}
    return bench("cpu").CpuSample(at_s, spent_s, children, busy_s, stolen_s)


def usage(bench: Any, *, busy_s: float = 0.0, stolen_s: float = 0.0) -> dict[str, float]:
    """Return what the CPUs did in a second in which process 10 used 0.2, its child 0.1, the broker 0.3."""
    before = sample(bench, 1.0, {os.getpid(): 5.0, 10: 1.0, 20: 1.0, 30: 1.0}, busy_s=100.0, stolen_s=7.0)
    after_s = {os.getpid(): 5.1, 10: 1.2, 11: 0.1, 20: 1.3, 30: 1.25}
    after = sample(bench, 2.0, after_s, busy_s=100.0 + busy_s, stolen_s=7.0 + stolen_s)
    found: dict[str, float] = bench("cpu").usage(before, after, measured=10, broker=20, records=1_000)
    return found


def test_others_are_neither_measured_nor_the_broker_nor_the_driver(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children count with the measured process; what others took is processes, and the machine's host."""
    monkeypatch.setattr(bench("cpu"), "CORES", 2)
    found = usage(bench, busy_s=0.95, stolen_s=0.1)
    assert found["cpu_s_per_million"] == pytest.approx(300.0)
    assert found["broker_share"] == pytest.approx(0.15)
    assert found["stolen_share"] == pytest.approx(0.05)
    assert found["others_share"] == pytest.approx((0.25 + 0.1) / 2)
    # Of processes outside of a container there is only the machine's sum.
    assert usage(bench, busy_s=1.7)["others_share"] == pytest.approx((1.7 - 0.7) / 2)


def test_a_stall_shows_in_the_least_slice(bench: Any) -> None:
    """Ten records in each quarter of a second but one, in which there are two."""
    least_slice = bench("window")._least_slice
    steady = [place * 0.025 + 0.01 for place in range(40)]
    stalled = [*steady[:10], 0.26, 0.27, *steady[20:]]
    assert least_slice(steady, 0.0, 1.0) == 1.0
    assert least_slice(stalled, 0.0, 1.0) == pytest.approx(2 / 8)
    assert least_slice([], 0.0, 1.0) == 0.0


def statistics(at_s: float, received: int, read_ahead: int, next_offset: int) -> str:
    """Return librdkafka's statistics of a client with two brokers and two partitions."""
    partition = {"fetchq_cnt": read_ahead, "next_offset": next_offset, "hi_offset": 1_000}
    internal = {"fetchq_cnt": 0, "next_offset": 0, "hi_offset": -1001}
    topics = {"t": {"topic": "t", "partitions": {"0": partition, "1": partition, "-1": internal}}}
    brokers = {"a": {"rxbytes": received - 100}, "b": {"rxbytes": 100}}
    return json.dumps({"ts": int(at_s * 1e6), "brokers": brokers, "topics": topics, "rx_bytes": 1})


@pytest.mark.parametrize(("next_offset", "ran_dry"), [(700, False), (1_000, True)])
def test_bytes_are_divided_by_what_was_handled_between_the_same_two_moments(
    bench: Any, next_offset: int, ran_dry: bool
) -> None:
    """What was finished is taken for the moment of the statistics; the queue is one for all partitions."""
    received, window = bench("bytes").SocketBytes(), bench("window").Window()
    for at_s, finished in ((10.0, 0), (12.0, 200), (14.0, 400)):
        window.add(at_s, finished)
    counts = iter((0, 50, 260, 400))
    received.count_received = lambda: next(counts)
    for at_s, so_far in ((9.0, 100), (11.0, 1_000), (13.0, 5_000), (15.0, 9_000)):
        received.take(statistics(at_s, so_far, 30 if at_s < 12 else 20, next_offset))
    found = received.ratio(window, 10.0)
    assert found["bytes_ratio"] == pytest.approx(4_000 / (200 * 10))
    assert found["kept_ratio"] == pytest.approx(4_000 / (200 * 10))
    assert found["looks_apart_s"] == 2.0
    assert found["ran_dry"] is ran_dry


def measured(bench: Any, monkeypatch: pytest.MonkeyPatch, shares: list[float], took_s: float) -> list[float]:
    """Measure while others take these shares in turn; return the share that counts, then those left."""
    rounds, row = bench("rounds"), bench("row")
    left = list(shares)
    monkeypatch.setattr(
        rounds, "run_side", lambda *_: {"others_share": left.pop(0), "took_s": took_s, "records_per_s": 1.0}
    )
    side = row.Side("engine")
    made = rounds.Rounds(None, 1, 2, Console(file=io.StringIO()))
    found, problem = made.measure([row.Row("W", side, side, warm_up=False, shared=True)])
    assert problem is None
    assert found["W"]["limit"] == found["W"]["ours"]
    return [found["W"]["ours"][0]["others_share"], *left]


def test_a_disturbed_measurement_is_repeated_and_the_quietest_counts(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number of times; not where it was quiet, nor where it takes minutes."""
    assert measured(bench, monkeypatch, [0.1, 0.0], 5.0) == [0.1, 0.0]
    assert measured(bench, monkeypatch, [0.5, 0.05, 0.0], 5.0) == [0.05, 0.0]
    assert measured(bench, monkeypatch, [0.5, 0.3, 0.4, 0.0], 5.0) == [0.3, 0.0]
    assert measured(bench, monkeypatch, [0.5, 0.0], 500.0) == [0.5, 0.0]
