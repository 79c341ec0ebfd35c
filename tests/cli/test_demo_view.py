"""What the demo shows while it runs: it fits the terminal and says what the snapshot says."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

import ehkafka
from ehkafka.cli.demo.session import DemoPlan
from ehkafka.cli.demo.view import RATE_PICTURES, Picture, draw, shown, sparkline
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
    found = fresh()
    found.snapshot, found.phase, found.elapsed_s, found.stored_records = (
        snapshot(),
        "producing",
        12.3,
        20_000_000,
    )
    found.rates = {None: 51_234.5} | {
        p.partition: 3_000.0 + p.partition.partition for p in map(partition, range(16))
    }
    found.curve.extend(range(60))
    found.verdict = Verdict(finished=10)
    for name, value in values.items():
        setattr(found, name, value)
    return found


def fresh(*moments: ehkafka.telemetry.Snapshot) -> Picture:
    """Return the picture of a run that has shown these."""
    found = Picture(DemoPlan(address="embedded", topic="t", workers=16))
    for moment in moments:
        found.take(moment, 0.0, 0)
    return found


def drawn(picture: Picture, width: int = 80, height: int = 24, warnings: tuple[str, ...] = ()) -> list[str]:
    """Return the screen's lines without styles."""
    console = Console(file=io.StringIO(), width=width, height=height, legacy_windows=False)
    console.print(draw(picture, height, warnings))
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
    assert " ".join(row.split()).startswith(whole)


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


def test_a_violation_shows_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The view does not wait for the end to say that a promise was broken."""
    bad = picture(verdict=Verdict(finished=10, order_violations=1))
    assert any(line.startswith("checker: VIOLATED, order violations 1") for line in drawn(bad))
    with shown(as_json=True, warnings=()) as show:
        show(bad)
    assert "VIOLATED, order violations 1" in capsys.readouterr().err


def test_a_violation_that_has_no_place_of_its_own_is_named() -> None:
    """The four counts that always stand there are not all that can go wrong."""
    lines = drawn(picture(verdict=Verdict(unseen=2)))
    assert any(line.startswith("checker: VIOLATED, unseen 2, ") for line in lines)


def test_a_warning_takes_the_last_line() -> None:
    """Log lines cannot be printed over the view, so the last one is part of it, cut to the width."""
    assert drawn(picture(), warnings=("an old one", "warning: " + "x" * 200))[-1].startswith("warning: xxx")


def test_nothing_known_yet_is_shown_as_such() -> None:
    """Before the first assignment there is no row and no lag."""
    lines = drawn(fresh())
    assert any("nothing waits" in line for line in lines)
    assert any("nothing judged yet" in line for line in lines)


def test_the_rate_is_the_mean_of_the_last_window() -> None:
    """What happened before the window does not count, and neither does a first look alone."""
    moving = fresh(snapshot(uptime_s=0.0, finished_records=0))
    assert moving.rates[None] == 0.0
    for second in range(1, RATE_PICTURES + 2):
        later = snapshot(uptime_s=second, finished_records=1_000 * second**2)
        moving.take(later, 0.0, 0)
    assert moving.rates[None] == pytest.approx((25_000 - 1_000) / RATE_PICTURES)


def test_partitions_that_come_and_go_have_no_rate_yet() -> None:
    """A rate from a count that was not there before would be nonsense."""
    moving = fresh(snapshot(uptime_s=0.0, partitions=()), snapshot(uptime_s=0.5))
    assert {rate for of, rate in moving.rates.items() if of is not None} == {0.0}
    later = tuple(partition(n, finished_records=1_235_000 + 100 * n) for n in range(16))
    for second in range(1, RATE_PICTURES):
        moving.take(snapshot(uptime_s=0.5 + second), 0.0, 0)
    moving.take(snapshot(uptime_s=0.5 + RATE_PICTURES, partitions=later), 0.0, 0)
    assert moving.rates[later[15].partition] == pytest.approx(1_500.0 / RATE_PICTURES)


def test_the_highest_values_are_remembered() -> None:
    """The summary tells the peaks, not the last moment."""
    highest = fresh(snapshot(), snapshot(partitions=())).highest
    assert (highest["lanes_max"], highest["backlog_records_max"]) == (16 * 2_999, 16 * 3_125)
    assert highest["lag_records_max"] == 16 * 12_345


def test_the_curve_is_drawn_from_nothing_to_its_highest() -> None:
    """0 is the lowest bar and the highest value the highest."""
    assert sparkline([0.0, 50.0, 100.0]) == "▁▅█"
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([]) == ""


def test_progress_lines_come_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    """Pictures come more often than lines."""
    with shown(as_json=True, warnings=()) as show:
        for uptime_s in (0.0, 0.3, 0.9, 1.1, 1.5):
            show(picture(snapshot=snapshot(uptime_s=uptime_s)))
    assert capsys.readouterr().err.count("\n") == 2
