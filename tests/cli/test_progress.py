"""`ehkafka run` on a terminal while it is behind: a bar below the log, and what the numbers in it are."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import TopicPartition
from ehkafka.cli.run_view import Distance, clock_of
from ehkafka.telemetry import PartitionSnapshot, Snapshot
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.terminal import Terminal

# Its own broker and 600 records; each takes 10 ms on four workers, one in a hundred is printed and logged.
SHOP = """
    import logging, time
    from confluent_kafka import Producer
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 2})
    consumer = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 100}
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", consumer=consumer)

    @app.on_start
    def produce():
        producer = Producer(endpoint.client_properties())
        for number in range(600):
            producer.produce("orders", key=f"k{number}", value=b"{}", partition=number % 2)
        producer.flush(10)

    @app.handler("orders", workers=4, on_failure=ehkafka.Hold())
    def handle(record):
        time.sleep(0.01)
        if record.key() == b"k13":
            raise ValueError("unlucky")
        if record.offset() % 100 == 0:
            print("PRINTED", record.where)
            logging.getLogger("shop").info("LOGGED %s", record.where)
"""
GOOD = SHOP.replace("k13", "none")
# Eight seconds of work or more, all of it in one partition, so that the lag is known at once.
SLOW = GOOD.replace("range(600)", "range(800)").replace("workers=4", "workers=1").replace("number % 2", "0")


def shown(uptime_s: float, finished: int, *lefts: int | None, lag: int | None = 0) -> Snapshot:
    """Return a picture of partitions that have so much left up to their ends, or a lag."""
    partitions = tuple(_partition(number, left, lag) for number, left in enumerate(lefts or (None,)))
    empty = Snapshot.empty("g", "here", "running", 0.0)
    return replace(empty, uptime_s=uptime_s, finished_records=finished, partitions=partitions)


def _partition(number: int, left: int | None, lag: int | None) -> PartitionSnapshot:
    names = [name for name in PartitionSnapshot.__slots__ if name not in ("standstill_s", "catch_up_records")]
    values: dict[str, Any] = dict.fromkeys(names, 0)
    values |= {"partition": TopicPartition("t", number), "oldest": None, "parked_full_key": None}
    return PartitionSnapshot(**values | {"lag_records": lag, "catch_up_records": left})


def test_the_way_to_the_end_has_a_rate_and_a_time() -> None:
    """Of all partitions together, from the first look on."""
    distance = Distance(to_end=True)
    distance.take(shown(1.0, 100, 500, 400))
    assert (distance.is_behind, distance.left_records, distance.left_s) == (True, 900, None)
    distance.take(shown(2.0, 200, 400, 400))
    assert (distance.done_records, distance.left_records, distance.per_s) == (100, 800, 100.0)
    assert distance.left_s == 8.0
    distance.take(shown(3.0, 1000, 0, 0))
    assert not distance.is_behind


def test_what_is_unknown_has_no_time() -> None:
    """A partition that has not said where it ends: the others' is too little."""
    distance = Distance(to_end=True)
    distance.take(shown(1.0, 0))
    assert (distance.is_behind, distance.left_records) == (False, None)
    distance.take(shown(2.0, 50, 500, None))
    assert (distance.is_behind, distance.is_all, distance.left_records) == (True, False, 500)
    assert distance.left_s is None


def test_a_run_without_an_end_is_behind_by_seconds_of_its_rate() -> None:
    """A few records are no backlog; once it is behind it is so until little is left; a stop ends it."""
    distance = Distance(to_end=False)
    distance.take(shown(1.0, 0, lag=4000))
    assert not distance.is_behind
    distance.take(shown(2.0, 1000, lag=4000))
    assert not distance.is_behind
    distance.take(shown(3.0, 2000, lag=6000))
    assert distance.is_behind
    distance.take(shown(4.0, 3000, lag=1000))
    assert distance.is_behind
    distance.take(shown(5.0, 4000, lag=400))
    assert not distance.is_behind
    distance.take(replace(shown(6.0, 5000, lag=10_000), state="stopping"))
    assert not distance.is_behind


def test_a_time_is_shown_as_a_clock() -> None:
    """An unknown time has no digits."""
    assert [clock_of(at_s) for at_s in (None, 0.4, 61, 3725.2, 1e9)] == [
        "-:--:--", "0:00:00", "0:01:01", "1:02:05", "-:--:--",
    ]  # fmt: skip


def test_a_terminal_shows_a_bar_that_goes_with_the_backlog(terminal: Callable[..., Terminal]) -> None:
    """Lines that are logged and printed meanwhile stand above it, whole; at the end nothing of it is left."""
    there = terminal(GOOD, "run", "shop", "--until-caught-up")
    assert there.process.wait(30) == 0
    wait_until(lambda: "Stopped with exit code 0" in there.text)
    bars = [line for line in there.text.replace("\r", "\n").split("\n") if line.startswith("catching up")]
    assert any("records/s" in line and "left" in line and "%" in line for line in bars)
    for word in ("PRINTED", "LOGGED"):
        lines = [line for line in there.text.replace("\r", "\n").split("\n") if word in line]
        assert len(lines) == 6
        assert not [line for line in lines if "catching up" in line]
    # The cursor is shown again, and the line of the bar was cleared.
    assert there.shown.count(b"\x1b[?25l") == there.shown.count(b"\x1b[?25h") == 1
    assert "catching up" not in there.text[there.text.index("Caught up with 2 partitions") :]


@pytest.mark.slow
def test_a_run_without_an_end_shows_it_too_while_it_is_behind(terminal: Callable[..., Terminal]) -> None:
    """And takes it away once it has caught up."""
    there = terminal(SLOW, "run", "shop")
    wait_until(lambda: b"\x1b[?25h" in there.shown)
    assert "catching up" in there.text
    there.press(b"\x03")
    assert there.process.wait(20) == 0


def test_without_a_terminal_nothing_is_drawn(tmp_path: Path, ehkafka_command: Callable) -> None:
    """The log says how far it is; what waits is named at the end, and the exit code is 4."""
    (tmp_path / "shop.py").write_text(dedent(SHOP))
    ended: subprocess.CompletedProcess[str] = ehkafka_command(
        "run", "shop", "--until-caught-up", "--settle-for", "0.5"
    )
    assert ended.returncode == 4, ended.stderr
    assert "catching up" not in ended.stdout + ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        "ehkafka: Not caught up: all other records are done, but 1 record has waited for more than "
        "settle_s=0.5"
    )
    assert "orders[1]@6 key k13 (on hold: ValueError: unlucky)" in last
