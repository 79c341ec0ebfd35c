"""`examples/demo` as a user runs it, and what a bad verdict ends with."""

from __future__ import annotations

import json
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from view import Summary

import ehkafka
from tests.kit.checker.verdict import Verdict
from tests.kit.running import Running, ended
from tests.kit.terminal import Terminal
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping

    from ehkafka.testing.kafka.broker import KafkaBroker

COMMAND = [sys.executable, str(Path(__file__).parents[2] / "examples" / "demo")]
GOOD = Verdict(produced=1000, received=1000, finished=1000, commits_acknowledged=3, processes=1, epochs=16)
FACTS: Mapping[str, Any] = {
    "ended_by": "time",
    "left_early": False,
    "endpoint": "embedded",
    "workers": 16,
    "homes": 500,
    "stored_records": 1000,
    "finished_records": 1000,
    "seconds": 2.0,
    "records_per_s": 500.0,
    "lanes_max": 10,
    "lag_records_max": 20,
    "backlog_records_max": 30,
    "swapped": 0,
}
# What went wrong, and a part of the sentence that must say so.
BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "order": ({"verdict": replace(GOOD, order_violations=2)}, "order violations: 2"),
    "lost": ({"verdict": replace(GOOD, lost=4)}, "lost: 4"),
    "miscounted": ({"finished_records": 1001}, "The app counts 1001 finished readings, the checker 1000"),
    "nothing judged": ({"verdict": Verdict(), "finished_records": 0}, "No reading was handled"),
    "swapped readings": ({"swapped": 8}, "readings before an earlier one: 8."),
}


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    return ended(*COMMAND, *arguments, cwd=folder)


def test_without_a_terminal_it_writes_lines_and_the_summary_as_json(tmp_path: Path) -> None:
    """Every reading was handled and judged; progress goes to stderr, and no terminal codes anywhere."""
    done = demo(tmp_path, "--records", "5000", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["ok"]
    assert summary["stored_records"] == summary["finished_records"] == 5000
    assert summary["verdict"]["produced"] == summary["verdict"]["finished"] == 5000
    assert summary["verdict"]["commits_acknowledged"] > 0
    assert summary["swapped"] == 0
    assert summary["homes"] > 1000
    assert "records/s" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_broker_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """One line with the address, its exit code, and nothing on stdout."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        done = demo(tmp_path, "--endpoint", address, "--json")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("demo: ")
    assert address in done.stderr


def test_on_a_terminal_it_draws_a_live_view(tmp_path: Path) -> None:
    """The view has the screen to itself and is gone before the summary, which stays."""
    terminal = Terminal(tmp_path, "--seconds", "2", command=COMMAND)
    try:
        wait_until(lambda: b"every promise was kept" in terminal.shown)
        assert terminal.process.wait(20.0) == 0
    finally:
        terminal.close()
    view, _, after = terminal.shown.decode().partition("\x1b[?1049l")
    assert "\x1b[?1049h" in view
    assert "records/s" in view
    assert "checker: order violations 0" in view
    assert "OK: every promise was kept" in after
    assert "producing" not in after


# The feed is a process of its own: seconds may pass before its first reading.
HANDLED = r" producing: .* [1-9][\d,]* of [\d,]+ finished"


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_it_early_with_the_summary(times: int, tmp_path: Path) -> None:
    """The verdict is on what was handled until then; the second signal waits for no further reading."""
    running = Running(tmp_path, ("--seconds", "60", "--json"), command=COMMAND)
    running.wait_for_match(HANDLED)
    running.process.send_signal(signal.SIGINT)
    # Another signal than the first: two of a kind may arrive as one.
    if times == 2:
        running.process.send_signal(signal.SIGTERM)
    assert running.end() == 0, running.stderr
    summary = json.loads(running.stdout)
    assert (summary["ended_by"], summary["left_early"], summary["ok"]) == ("interrupt", times == 2, True)
    assert summary["verdict"]["finished"] == summary["finished_records"] > 0
    running.close()


def test_the_demo_runs_on_another_broker(kafka: KafkaBroker, tmp_path: Path) -> None:
    """A missing topic is made and said so; a second run starts behind what the first left there."""
    arguments = ("--endpoint", kafka.bootstrap, "--records", "3000", "--json")
    client = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "looks"})
    is_there = "ehkafka-demo-readings" in client.list_topics(timeout=30).topics  # this test's second try
    client.close()
    first, second = demo(tmp_path, *arguments), demo(tmp_path, *arguments)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert is_there or "Made the topic 'ehkafka-demo-readings'" in first.stderr
    assert "Made the topic" not in second.stderr
    assert json.loads(second.stdout)["verdict"]["received"] == 3000
    assert json.loads(second.stdout)["endpoint"] == kafka.bootstrap


@pytest.mark.parametrize("case", BAD)
def test_a_bad_verdict_is_loud(case: str) -> None:
    """The first line, the sentence, the request to report and the exit code say it, whatever else failed."""
    changes, sentence = BAD[case]
    bad = Summary({**FACTS, **changes}, changes.get("verdict", GOOD))
    shown = bad.text().plain
    assert (bad.exit_code, bad.as_dict()["ok"]) == (1, False)
    assert "VIOLATED" in shown.splitlines()[0]
    assert sentence in shown
    assert "Please report it" in shown.splitlines()[-1]


def test_a_failed_app_keeps_its_exit_code_unless_a_violation_outweighs_it() -> None:
    """A person who looks only at the exit code must learn of the violation."""
    error = ehkafka.errors.EndpointError("The broker is gone.")
    failed = Summary(dict(FACTS), GOOD, error)
    assert failed.exit_code == ehkafka.errors.EndpointError.exit_code
    assert "The broker is gone." in failed.text().plain
    assert Summary(dict(FACTS), replace(GOOD, lost=1), error).exit_code == 1
