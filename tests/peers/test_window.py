"""The arithmetic of a window: what is counted, from when until when, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest


def states(peers: Any, window: Any, lines: list[tuple[float, int]]) -> list[str]:
    """Give a window such lines; return what it says to each."""
    return [window.add(peers("window").Line(at_s, handled)) for at_s, handled in lines]


def test_a_window_begins_after_the_warm_up_and_counts_between_two_looks(peers: Any) -> None:
    """What was handled before the first look, and after the second one, does not count."""
    window = peers("window").Window(warm_s=1.0, seconds=2.0)
    lines = [(10.0, 0), (11.0, 500), (11.5, 900), (12.0, 1_000), (13.0, 1_300), (14.5, 2_000)]
    assert states(peers, window, lines) == ["waiting", "warm", "warm", "begin", "counting", "end"]
    figures = window.figures()
    assert figures["records"] == 1_000
    assert figures["records_per_s"] == pytest.approx(400.0)
    assert figures["least_per_s"] == pytest.approx(300.0)
    assert "p99_ms" not in figures


def test_a_window_ends_before_its_topic_does(peers: Any) -> None:
    """The line after the last record would show a rest."""
    window = peers("window").Window(warm_s=0.0, seconds=9.0, records=1_000)
    lines = [(1.0, 100), (2.0, 400), (3.0, 700)]
    assert states(peers, window, lines) == ["begin", "counting", "end"]
    assert window.figures()["records_per_s"] == pytest.approx(300.0)


def test_a_topic_that_is_too_small_is_named(peers: Any) -> None:
    """No figure comes from a window of a moment, nor from a warm-up."""
    module = peers("window")
    with pytest.raises(module.WindowError, match="1,000 records were handled before the warm-up ended"):
        states(peers, module.Window(warm_s=5.0, seconds=2.0, records=1_000), [(1.0, 1), (2.0, 900)])
    with pytest.raises(module.WindowError, match="1,000 records lasted for too short a window"):
        states(peers, module.Window(warm_s=0.0, seconds=2.0, records=1_000), [(1.0, 300), (1.5, 900)])


@pytest.mark.parametrize("second", [(2.0, 5), (1.0, 20), (0.5, 20)])
def test_neither_the_count_nor_the_clock_goes_back(peers: Any, second: tuple[float, int]) -> None:
    """Such a line would make a figure that is wrong."""
    module = peers("window")
    with pytest.raises(module.WindowError, match="never go back"):
        states(peers, module.Window(warm_s=0.0, seconds=2.0), [(1.0, 10), second])


def test_a_stall_of_one_line_weighs_as_much_as_its_records(peers: Any) -> None:
    """A median of the lines' p99 would lose it, their maximum would make it all."""
    quantile = peers("window").mixed_quantile
    quick, slow = [1.0, 2.0, 3.0, 4.0], [500.0, 900.0, 990.0, 1_000.0]
    assert quantile([(quick, 1_000)], 0.5) == pytest.approx(1.0)
    assert quantile([(quick, 1_000)], 0.99) == pytest.approx(2.0)
    assert quantile([(quick, 9_990), (slow, 10)], 0.99) < 3.0
    assert quantile([(quick, 900), (slow, 100)], 0.99) > 500.0
    assert quantile([(quick, 900), (slow, 100)], 1.0) == pytest.approx(1_000.0)


def test_a_line_weighs_by_its_latencies_also_where_nothing_was_handled(peers: Any) -> None:
    """In a stall, handlers begin late and none returns before the line: it shows nevertheless."""
    module = peers("window")
    window = module.Window(warm_s=0.0, seconds=2.0)
    lines = [(1.0, 100, 1.0, 100), (2.0, 100, 800.0, 50), (3.0, 1_000, 1.0, 450)]
    for at_s, handled, latency, latencies in lines:
        window.add(module.Line(at_s, handled, 0, (latency,) * 4, latencies))
    figures = window.figures()
    assert figures["max_ms"] == 800.0
    # A tenth of the latencies, while of the handled records it would be none.
    assert figures["p99_ms"] == pytest.approx(800.0, rel=0.02)
    assert figures["p50_ms"] == pytest.approx(1.0)


@pytest.mark.parametrize("latencies", [None, 0, -1, "2"])
def test_latencies_without_their_number_are_refused(peers: Any, latencies: Any) -> None:
    """They could not be weighed."""
    module = peers("window")
    given = {"at_s": 1.0, "handled": 1, "latency_ms": [1, 2, 3, 4], "latencies": latencies}
    with pytest.raises(module.WindowError, match="latencies is how many"):
        module.Line.from_json({name: value for name, value in given.items() if value is not None})
    assert module.Line.from_json({**given, "latencies": 7}).latencies == 7
