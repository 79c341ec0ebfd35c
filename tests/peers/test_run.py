"""Whole runs: two small sides on the embedded broker, and the rounds with measurements that are made up."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pathlib import Path

SIDE = """
import time
import confluent_kafka
from protocol import Options, Report

options, report = Options.from_arguments(), Report()
consumer = confluent_kafka.Consumer(
    {"bootstrap.servers": options.bootstrap, "group.id": options.group, "auto.offset.reset": "earliest"}
)
consumer.subscribe([options.topic])
cell = report.cell()
report.ready()
while not report.stopping.is_set():
    for message in consumer.consume(20, 0.01):
        if options.work == "latency":
            report.age(message.value())
        cell[0] += 1
    time.sleep(PAUSE)
consumer.close()
"""
TOML = """
title = "NAME"
packages = []
[[modes]]
title = "NAME by one"
works = ["noop", "latency"]
order = "partition"
"""


@pytest.fixture
def sides(peers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Return a slow and a slower side."""
    catalogue = peers("catalogue")
    (tmp_path / "protocol.py").write_text((catalogue.SIDES / "protocol.py").read_text())
    monkeypatch.setattr(catalogue, "SIDES", tmp_path)
    for name, pause in (("slow", "0.01"), ("slower", "0.05")):
        (tmp_path / f"{name}.py").write_text(SIDE.replace("PAUSE", pause))
        (tmp_path / f"{name}.toml").write_text(TOML.replace("NAME", name))
    return catalogue.all_sides(tmp_path)


def test_two_sides_run_in_turn_on_a_broker(peers: Any, sides: list[Any], tmp_path: Path) -> None:
    """From the filled topic to the table, and with a producer that sends meanwhile."""
    plan, raw, console = peers("plan"), peers("raw"), Console(file=io.StringIO())
    topic = plan.Filled("main", 20_000, 100)
    rows = [
        plan.Row("W0 quick handlers", "no-op", "noop", topic, warm_s=0.2),
        plan.Row("W9 latency p99 (ms)", "200/s", "latency", plan.Live(200), figure="p99_ms", warm_s=0.2),
    ]
    turns = [
        one
        for one in peers("rounds").in_turn(rows, sides, 1)
        if one[1].work == "noop" or one[2].name == "slow"
    ]
    writer = raw.Writer(tmp_path / "build", {"rounds": 1})
    with EmbeddedBroker() as broker:
        peers("load").fill(broker, topic)
        assert sum(peers("load").ends_of(broker.bootstrap, "main")) == 20_000
        setting = peers("measure").Setting(broker, 0.8, lambda side: [sys.executable, str(side.program)])
        assert peers("rounds").run_all(setting, turns, writer, console) == []
    writer.end()
    run = raw.read_run(tmp_path / "build")
    slow, slower = peers("figures").results(run, rows[0])
    assert (slow.mode, slower.mode) == ("slow by one", "slower by one")
    assert slow.figure.median > 1.3 * slower.figure.median > 100
    (latency,) = peers("figures").results(run, rows[1])
    assert 0 < latency.figure.median < 5_000


def made_up(
    peers: Any, sides: list[Any], tmp_path: Path, answers: Any, rounds: int = 2
) -> tuple[list[dict[str, Any]], list[str], str]:
    """Run some rounds of one row with made-up measurements; return what was written, failed and shown."""
    plan, raw, shown = peers("plan"), peers("raw"), io.StringIO()
    row = plan.Row("W0 quick handlers", "no-op", "noop", plan.Filled("main", 1, 1))
    writer = raw.Writer(tmp_path, {})
    turns = peers("rounds").in_turn([row], sides, rounds)
    failures = peers("rounds").run_all(
        None,
        turns,
        writer,
        Console(file=shown, width=200),
        measure_once=lambda _setting, _row, side, _mode: answers(side),
    )
    writer.end()
    return raw.read_run(tmp_path).measurements, failures, shown.getvalue()


def test_a_disturbed_measurement_is_repeated_once_and_the_quieter_one_counts(
    peers: Any, sides: list[Any], tmp_path: Path
) -> None:
    """No third time: a busy machine would never end it."""
    shares = iter([0.5, 0.3, 0.02, 0.4, 0.6, 0.1])
    found, _, shown = made_up(peers, sides, tmp_path, lambda _side: {"others_share": next(shares)})
    assert [one["others_share"] for one in found] == [0.3, 0.02, 0.4, 0.1]
    assert shown.count("Once more") == 2


def test_a_side_that_fails_ends_nothing_and_is_tried_once_more(
    peers: Any, sides: list[Any], tmp_path: Path
) -> None:
    """An hour of others' measurements is kept, and each failure has its sentence."""
    tried = []

    def answer(side: Any) -> dict[str, Any]:
        tried.append(side.name)
        if side.name == "slow":
            raise peers("process").SideError("slow by one: ended with exit code 1.\n    [/its words")
        return {"records_per_s": 1.0}

    found, failures, _ = made_up(peers, sides, tmp_path, answer, 4)
    assert tried == ["slow", "slower", "slower", "slow", "slower", "slower"]
    assert [one.get("failed") for one in found if one["side"] == "slower"] == [None] * 4
    first, again = (one for one in found if one["side"] == "slow")
    assert first["failed"] == again["failed"] == "slow by one: ended with exit code 1."
    assert failures == ["slow by one: ended with exit code 1.\n    [/its words"] * 2


@pytest.mark.parametrize(
    ("found", "share", "is_right"), [(99, 1.0, False), (100, 1.0, True), (90, 0.9, True)]
)
def test_outputs_that_a_side_counts_are_in_the_topic(
    peers: Any, found: int, share: float, is_right: bool
) -> None:
    """All of them, where its library can tell."""
    check = peers("measure")._check_outputs
    if is_right:
        check(found, 100, share, "a mode")
    else:
        with pytest.raises(peers("process").SideError, match="counts 100 outputs, and 99 are in the topic"):
            check(found, 100, share, "a mode")
    shares = {side.name: side.sent_share_min for side in peers("catalogue").all_sides()}
    assert {name for name, least in shares.items() if least != 1.0} == {"quix", "parallel_consumer"}


def test_a_side_without_an_environment_is_left_out(peers: Any, sides: list[Any]) -> None:
    """With the reason; the others are measured."""
    shown = io.StringIO()

    def command(side: Any) -> list[str]:
        if side.name == "slow":
            raise peers("environments").EnvironmentFailedError("slow needs [a JDK]")
        return [side.name]

    commands, left_out = peers("run").environments(sides, Console(file=shown, width=200), command=command)
    assert commands == {"slower": ["slower"]}
    assert left_out == {"slow": "slow needs [a JDK]"}
    assert "left out: slow needs [a JDK]" in shown.getvalue()


def test_a_whole_run_fits_into_an_hour_and_a_quick_one_into_eight_minutes(peers: Any) -> None:
    """By the plan's own numbers, with all sides that there are."""
    plan, rounds, run = peers("plan"), peers("rounds"), peers("run")
    sides = peers("catalogue").all_sides()
    whole = rounds.in_turn(plan.rows(quick=False), sides, run.ROUNDS)
    quick = rounds.in_turn(plan.rows(quick=True), sides, run.QUICK_ROUNDS)
    assert rounds.minutes(whole, run.SECONDS) <= 58
    assert rounds.minutes(quick, run.QUICK_SECONDS) <= 7
