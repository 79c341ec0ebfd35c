"""`ehkafka demo` as a user runs it, and the simulator that it holds back."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError

import ehkafka
from ehkafka.cli.demo.session import DemoPlan
from ehkafka.cli.demo.simulator import ORDER_RECORDS, UNFINISHED_RECORDS_MAX, Feed
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

COMMAND = [sys.executable, "-P", "-m", "ehkafka.cli"]


def test_json_is_all_that_stdout_gets(ehkafka_command: Callable) -> None:
    """With --json a program can read the summary; every reading was handled and judged."""
    ended = ehkafka_command("demo", "--records", "5000", "--json")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads(ended.stdout)
    assert summary["ok"]
    assert summary["problems"] == []
    assert summary["stored_records"] == summary["finished_records"] == 5000
    assert summary["verdict"]["produced"] == summary["verdict"]["finished"] == 5000
    assert summary["verdict"]["commits_acknowledged"] > 0
    assert summary["swapped"] == 0
    assert summary["homes"] > 1000


def test_without_a_terminal_it_writes_a_line_a_second(ehkafka_command: Callable) -> None:
    """Progress goes to stderr, the summary to stdout, and no terminal codes anywhere."""
    ended = ehkafka_command("demo", "--seconds", "2.5", "--workers", "4")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count(" producing: ") >= 2
    assert "records/s" in ended.stderr
    assert ended.stdout.startswith("OK: every promise was kept\n")
    assert "4 workers, the checker on" in ended.stdout
    assert "order violations 0, premature commits 0" in ended.stdout
    assert "\x1b" not in ended.stdout + ended.stderr


def test_on_a_terminal_it_draws_a_live_view(tmp_path: Path) -> None:
    """The view has the screen to itself and is gone before the summary, which stays."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(
        [*COMMAND, "demo", "--seconds", "2"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    # The end of the other side reads as an error on Linux.
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 65_536):
            shown += chunk
    os.close(ours)
    assert process.wait(20.0) == 0
    view, _, after = shown.decode().partition("\x1b[?1049l")
    assert "\x1b[?1049h" in view
    assert "records/s" in view
    assert "checker: order violations 0" in view
    assert "OK: every promise was kept" in after
    assert "producing" not in after


# The feed is a process of its own: seconds may pass before its first reading.
HANDLED = r" producing: .* [1-9][\d,]* of [\d,]+ finished"


def test_ctrl_c_ends_it_early_with_the_summary(start_ehkafka: Callable) -> None:
    """Who stops the demo gets the verdict on what was handled until then."""
    running = start_ehkafka("demo", "--seconds", "60", "--json")
    running.wait_for_match(HANDLED)
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 0, running.stderr
    summary = json.loads(running.stdout)
    assert summary["ended_by"] == "interrupt"
    assert summary["ok"]
    assert summary["finished_records"] == summary["stored_records"] > 0


def test_asking_twice_leaves_at_once(start_ehkafka: Callable) -> None:
    """Nobody waits for the last readings; the verdict is about those that were handled."""
    running = start_ehkafka("demo", "--seconds", "60", "--json")
    running.wait_for_match(HANDLED)
    running.process.send_signal(signal.SIGINT)
    # Another signal than the first: two of a kind may arrive as one.
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == 0, running.stderr
    summary = json.loads(running.stdout)
    assert summary["left_early"]
    assert summary["ok"]
    assert summary["verdict"]["finished"] == summary["finished_records"] > 0


@pytest.fixture
def plan() -> Iterator[DemoPlan]:
    """Return a plan with a broker of its own."""
    made = DemoPlan(address="embedded", topic="t", workers=1)
    with made.endpoint:
        yield made


@pytest.fixture
def feed(plan: DemoPlan) -> Iterator[Feed]:
    """Return a running simulator whose records nobody reads."""
    running = Feed(plan)
    yield running
    running.close()


def test_the_simulator_never_gets_ahead_of_its_limits(feed: Feed) -> None:
    """While nothing is finished it stops where the broker can still keep everything, and goes on later."""
    feed.order(0)
    first = _answered(feed)
    assert UNFINISHED_RECORDS_MAX <= first < UNFINISHED_RECORDS_MAX + ORDER_RECORDS
    feed.order(0)
    assert _answered(feed) == first, "too much is unfinished"
    feed.order(5_000)
    assert first + 5_000 <= _answered(feed) < first + 5_000 + ORDER_RECORDS


def test_the_simulator_stores_what_was_asked_for(plan: DemoPlan) -> None:
    """To the record, and it says of each partition which offsets they got."""
    plan.records = ORDER_RECORDS + 1
    feed = Feed(plan)
    feed.order(0)
    assert (_answered(feed), feed.left_records) == (ORDER_RECORDS + 1, 0)
    assert {stored.start for stored in feed.stored.values()} == {0}
    feed.close()


def test_a_simulator_that_dies_is_noticed(feed: Feed) -> None:
    """Its end is an error with a next step, not a demo that waits for ever."""
    _answered(feed)
    feed.process.kill()
    feed.order(0)
    _answered(feed)
    assert isinstance(feed.failure, ehkafka.errors.EndpointError)
    assert "could not produce to topic 't' on embedded: its process" in str(feed.failure)


def test_a_broker_that_takes_no_readings_is_named() -> None:
    """The client's own reason is part of the error, and nobody waits for the other orders."""
    with EmbeddedBroker({"t": 1}) as broker:
        broker.fail_next(ApiKey.PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        feed = Feed(DemoPlan(address=broker.bootstrap, topic="t", workers=1))
        feed.order(0)
        _answered(feed)
        feed.close()
    assert isinstance(feed.failure, ehkafka.errors.EndpointError)
    assert re.match(r"The simulator could not produce to topic 't' on .*: .*authori", str(feed.failure))


def test_the_simulator_does_not_outlive_the_demo(feed: Feed) -> None:
    """The end of its pipe, all that a killed demo leaves behind, ends it."""
    feed.order(0)
    _answered(feed)
    feed.pipe.close()
    assert feed.process.wait(10.0) == 0


def test_the_demo_runs_on_another_broker(kafka: KafkaBroker, ehkafka_command: Callable) -> None:
    """A missing topic is made and said so; a second run starts behind what the first left there."""
    arguments = ("demo", "--endpoint", kafka.bootstrap, "--records", "3000", "--json")
    client = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "looks"})
    is_there = "ehkafka-demo-readings" in client.list_topics(timeout=30).topics  # this test's second try
    client.close()
    first, second = ehkafka_command(*arguments), ehkafka_command(*arguments)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert is_there or "Made the topic 'ehkafka-demo-readings'" in first.stderr
    assert "Made the topic" not in second.stderr
    assert json.loads(second.stdout)["verdict"]["received"] == 3000
    assert json.loads(second.stdout)["endpoint"] == kafka.bootstrap


def _answered(feed: Feed) -> int:
    """Wait until each order is answered; return how many records are stored."""

    def is_answered() -> bool:
        feed.listen()
        return not feed.unanswered

    wait_until(is_answered)
    return feed.stored_records
