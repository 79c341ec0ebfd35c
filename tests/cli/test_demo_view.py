"""What the demo shows while it runs: it fits the terminal and says what the snapshot says."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

import ehkafka
from ehkafka.cli.demo.picture import RATE_WINDOW_S, Meter, Picture
from ehkafka.cli.demo.plan import DemoPlan
from ehkafka.cli.demo.progress import ProgressLines, progress_line
from ehkafka.cli.demo.view import draw, sparkline
from ehkafka.telemetry.snapshot import Unfinished
from ehkafka.testing import Verdict


def partition(number: int, **values: Any) -> ehkafka.telemetry.PartitionSnapshot:
    """Return a partition with large numbers in every column."""
    usual = {
        "partition": ehkafka.TopicPartition("readings", number),
        "epoch": 1,
        "lag_records": 12_345,
        "backlog_records": 3_125,
        "backlog_bytes": 10**6,
        "parked_records": 0,
        "parked_bytes": 0,
        "parked_full_key": None,
        "lanes": 2_999,
        "watermark": 1_234_567,
        "committed": 1_233_000,
        "received_records": 1_237_000,
        "finished_records": 1_235_000,
        "skipped_records": 0,
        "dead_lettered_records": 0,
        "paused": True,
        "oldest": Unfinished(1_234_567, f"home-{number:06d}", 0.1 + number % 7, 0, "queued"),
    }
    return ehkafka.telemetry.PartitionSnapshot(**(usual | values))


def snapshot(**values: Any) -> ehkafka.telemetry.Snapshot:
    """Return a snapshot of 16 such partitions."""
    empty = ehkafka.telemetry.Snapshot.empty("g", "embedded", "running", 0.0)
    known = {name: getattr(empty, name) for name in ehkafka.telemetry.Snapshot.__dataclass_fields__}
    known |= {"partitions": tuple(map(partition, range(16))), "finished_records": 19_760_000}
    return ehkafka.telemetry.Snapshot(**(known | values))


def picture(**values: Any) -> Picture:
    """Return a picture of a busy moment."""
    plan = DemoPlan.chosen(seconds=20, records=None, endpoint="embedded", topic="t", workers=16)
    usual = {
        "plan": plan,
        "snapshot": snapshot(),
        "elapsed_s": 12.3,
        "stored_records": 20_000_000,
        "rate_per_s": 51_234.5,
        "partition_rates_per_s": tuple(float(3_000 + n) for n in range(16)),
        "curve": tuple(float(n) for n in range(60)),
        "verdict": Verdict(finished=10),
        "phase": "producing",
    }
    return Picture(**(usual | values))


def drawn(shown: Picture, width: int = 80, height: int = 24, warning: str | None = None) -> list[str]:
    """Return the screen's lines without styles."""
    console = Console(file=io.StringIO(), width=width, height=height, legacy_windows=False)
    console.print(draw(shown, width=width, height=height, warning=warning))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 15), (140, 40), (200, 60)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    """Large numbers in every column, and still no line wraps or scrolls."""
    lines = drawn(picture(), width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("Ctrl-C ends it")


@pytest.mark.parametrize("width", [80, 140])
def test_every_number_of_a_partition_is_shown_whole(width: int) -> None:
    """Rate, lag, backlog (paused), lanes, watermark, commit, oldest key and its age stand in one row."""
    row = next(line for line in drawn(picture(), width) if "home-000005" in line)
    whole = "5 3 005 12 345 ‖3 125 2 999 1 234 567 1 233 000 home-000005 5 100"
    assert " ".join(row.split()).removesuffix(" █").startswith(whole)


def test_the_oldest_key_of_all_is_named() -> None:
    """The record that has waited longest is what holds a commit back."""
    assert any(
        line.startswith("oldest: home-000006 at readings[6]@1234567, queued, 6100 ms")
        for line in drawn(picture())
    )


def test_a_low_terminal_says_how_many_partitions_it_hides() -> None:
    """What does not fit is not silently missing."""
    lines = drawn(picture(), height=15)
    assert any("10 more" in line for line in lines)
    assert sum("home-" in line for line in lines) == 6 + 1  # and the line that names the oldest
    assert any(line.strip().startswith("all") for line in lines)


def test_a_violation_shows_at_once() -> None:
    """The view does not wait for the end to say that a promise was broken."""
    bad = picture(verdict=Verdict(finished=10, order_violations=1))
    assert any(line.startswith("checker: VIOLATED, order violations 1") for line in drawn(bad))
    assert "VIOLATED: {'order_violations': 1}" in progress_line(bad)


def test_a_warning_takes_the_last_line() -> None:
    """Log lines cannot be printed over the view, so the last one is part of it, cut to the width."""
    assert drawn(picture(), warning="warning: " + "x" * 200)[-1].startswith("warning: xxx")


def test_nothing_known_yet_is_shown_as_such() -> None:
    """Before the first assignment there is no row and no lag."""
    early = picture(snapshot=snapshot(partitions=()), partition_rates_per_s=(), curve=(), verdict=None)
    lines = drawn(early)
    assert any("nothing waits" in line for line in lines)
    assert any("nothing judged yet" in line for line in lines)


def test_the_rate_is_the_mean_of_the_last_window() -> None:
    """What happened before the window does not count, and neither does a first look alone."""
    meter = Meter()
    meter.add(snapshot(uptime_s=0.0, finished_records=0))
    assert meter.rate_per_s == 0.0
    for second in range(1, 4):
        meter.add(snapshot(uptime_s=second * RATE_WINDOW_S, finished_records=1_000 * second**2))
    assert meter.rate_per_s == pytest.approx((9_000 - 4_000) / RATE_WINDOW_S)


def test_partitions_that_come_and_go_have_no_rate_yet() -> None:
    """A rate over two different sets of partitions would be nonsense."""
    meter = Meter()
    meter.add(snapshot(uptime_s=0.0, partitions=()))
    meter.add(snapshot(uptime_s=0.5))
    assert meter.partition_rates_per_s == (0.0,) * 16
    later = tuple(partition(n, finished_records=1_235_000 + 100 * n) for n in range(16))
    meter.add(snapshot(uptime_s=2.0))
    meter.add(snapshot(uptime_s=3.0, partitions=later))
    assert meter.partition_rates_per_s[15] == pytest.approx(1_500.0)


def test_the_meter_remembers_the_highest_values() -> None:
    """The summary tells the peaks, not the last moment."""
    meter = Meter()
    meter.add(snapshot())
    meter.add(snapshot(partitions=()))
    assert (meter.lanes_max, meter.backlog_records_max) == (16 * 2_999, 16 * 3_125)
    assert meter.lag_records_max == 16 * 12_345


def test_the_curve_is_drawn_from_nothing_to_its_highest() -> None:
    """0 is the lowest bar and the highest value the highest."""
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_progress_lines_come_once_a_second() -> None:
    """Pictures come more often than lines."""
    stream = io.StringIO()
    lines = ProgressLines(stream)
    for uptime_s in (0.0, 0.3, 0.9, 1.1, 1.5):
        lines.show(picture(snapshot=snapshot(uptime_s=uptime_s)))
    assert stream.getvalue().count("\n") == 2
