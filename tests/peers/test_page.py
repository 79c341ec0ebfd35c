"""The page: its generated parts from made-up data, and the one that is there from the data that is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROW = "W0 quick handlers, no-op"


@pytest.fixture
def sides(peers: Any) -> list[Any]:
    """Return ehkafka, a program by hand, and two libraries, one of which does no JSON as asked."""
    catalogue = peers("catalogue")

    def side(name: str, *modes: Any, **more: Any) -> Any:
        return catalogue.Side(name, name.title(), "1.2", "https://example.org", modes, **more)

    def mode(title: str, order: str = "key", **more: Any) -> Any:
        return catalogue.Mode(title, ("noop", "json"), order, **more)

    return [
        side("ours", mode("ours on threads"), checkout=True),
        side("bare", mode("bare loop", "partition", by_hand=True, note="the limit")),
        side("good", mode("Good library")),
        side("odd", mode("Odd library", "none"), cannot={"json": "reads no JSON", "sleep": "never sleeps"}),
    ]


def run_of(peers: Any, figures: dict[str, list[float]], *, others: float = 0.01) -> Any:
    """Return a run in which modes have these figures at the first row, round by round."""
    measurements = [
        {
            "row": ROW,
            "side": title.split()[0].lower(),
            "mode": title,
            "round": number,
            "records_per_s": value,
            "cpu_s_per_million": 2.5,
            "others_share": others,
        }
        for title, values in figures.items()
        for number, value in enumerate(values)
    ]
    facts = {
        "date": "2026-01-02", "commit": "abcd1234", "machine": "2 cores", "python": "3.11", "broker": "Kafka",
        "rounds": 3, "seconds": 3.0, "part": "", "left_out": {},
    }  # fmt: skip
    return peers("raw").Run(facts, measurements)


FIGURES = {
    "ours on threads": [500.0, 600.0, 1_000.0],
    "bare loop": [1_000.0, 1_000.0, 1_000.0],
    "Good library": [300.0, 300.0, 310.0],
    "Odd library": [550.0, 580.0, 590.0],
}


def test_a_table_has_medians_spreads_order_and_cpu(peers: Any, sides: list[Any]) -> None:
    """The best first, our own in bold; a mode that does a work only nearly has a mark and a reason."""
    rows = peers("plan").rows(quick=False)[:2]
    text = peers("tables").table(run_of(peers, FIGURES), rows, sides)
    lines = text.splitlines()
    assert lines[0] == "| | order | no-op | JSON | CPU s per million |"
    assert lines[2] == "| bare loop | per partition | 1,000 (1,000–1,000) | – | 2.50 · – |"
    assert lines[3] == "| **ours on threads** | per key | 600 (500–1,000) | – | 2.50 · – |"
    assert lines[4].startswith("| Odd library [1] | none | 580 (550–590) |")
    assert "- [1] Odd: reads no JSON." in lines
    assert "- Others took 1% of the CPU in the median, 1% at most." in lines
    assert "⚠" not in text


def test_a_disturbed_measurement_is_marked(peers: Any, sides: list[Any]) -> None:
    """And the sentence below says what the mark means."""
    rows = peers("plan").rows(quick=False)[:1]
    text = peers("tables").table(run_of(peers, FIGURES, others=0.3), rows, sides)
    assert "| 600 (500–1,000) ⚠ |" in text
    assert "30% at most; ⚠ marks what had more than 10%." in text


def test_a_side_that_failed_has_its_sentence(peers: Any, sides: list[Any]) -> None:
    """Not a gap, which would look like a work that it was not asked to do."""
    run = run_of(peers, FIGURES)
    run.measurements.append({"row": ROW, "side": "x", "mode": "Good library", "round": 3, "failed": "late"})
    rows = peers("plan").rows(quick=False)[:1]
    text = peers("tables").table(run, rows, sides)
    assert "| Good library | per key | 300 (300–310) |" in text
    assert "- no-op, in some rounds: late" in text
    run.measurements = [one for one in run.measurements if "failed" in one or one["mode"] != "Good library"]
    text = peers("tables").table(run, rows, sides)
    assert "| Good library | per key | failed |" in text
    assert "- no-op, late" in text


def test_where_ehkafka_is_behind_comes_from_ratios_of_one_round(peers: Any, sides: list[Any]) -> None:
    """With the reason of its workload; where it is ahead nothing is said."""
    behind, rows = peers("behind"), peers("plan").rows(quick=False)
    found = behind.comparisons(run_of(peers, FIGURES), rows, sides)
    assert [(one.kind, one.other.mode, one.is_behind) for one in found] == [
        ("hand", "bare loop", True),
        ("library", "Odd library", False),
    ]
    assert found[1].ratio.median == pytest.approx(600 / 580)
    text = behind.behind(found)
    assert text.startswith(
        "- **W0**, quick handlers, no-op: 0.60 (0.50–1.00) of bare loop, order per partition"
    )
    assert peers("reasons").BY_HAND["W0"] in text
    assert "library" not in text
    assert "| 1.03 (0.91–1.69) of Odd library, no order |" in behind.short_table(found)
    ahead = behind.comparisons(run_of(peers, {**FIGURES, "bare loop": [1.0]}), rows, sides)
    assert behind.behind(ahead) == "In this run: nowhere."


def test_of_a_latency_less_is_better(peers: Any, sides: list[Any]) -> None:
    """A ratio above 1 is good there, too."""
    rows = [row for row in peers("plan").rows(quick=False) if row.workload == "W9"][:1]
    run = run_of(peers, {"ours on threads": [10.0], "bare loop": [5.0], "Good library": [40.0]})
    for one in run.measurements:
        one |= {"row": rows[0].name, "p99_ms": one["records_per_s"]}
    found = peers("behind").comparisons(run, rows, sides)
    assert [(one.kind, one.ratio.median) for one in found] == [("hand", 0.5), ("library", 4.0)]


def test_each_workload_has_its_reasons(peers: Any) -> None:
    """A run may find ehkafka behind anywhere."""
    workloads = {row.workload for row in peers("plan").rows(quick=False)}
    assert workloads == set(peers("reasons").BY_HAND) == set(peers("reasons").LIBRARY)


def test_what_cannot_be_done_is_listed_with_the_nearest_mode(peers: Any, sides: list[Any]) -> None:
    """A reason for each; or that it is not measured."""
    text = peers("tables").cannot_table(sides, peers("plan").rows(quick=False))
    assert "| Odd | W0 json | reads no JSON | Odd library |" in text
    assert "| Odd | W1, W2 sleep | never sleeps | not measured |" in text


def test_only_what_is_between_markers_is_written(peers: Any, sides: list[Any]) -> None:
    """A marker too many or too few is an error: a part of the page would stay as it was."""
    page, rows = peers("page"), peers("plan").rows(quick=False)
    names = ("facts", "short", "behind", "figures", "cannot", "modes")
    text = "".join(f"# {name}\n<!-- peers: {name} -->\nold\n<!-- end -->\n" for name in names)
    filled = page.filled(text, run_of(peers, FIGURES), sides, rows)
    assert "old" not in filled
    assert "commit `abcd1234`: 2 cores, Python 3.11, Kafka; 3 rounds" in filled
    assert [line for line in filled.splitlines() if line.startswith("# ")] == [f"# {name}" for name in names]
    assert page.filled(filled, run_of(peers, FIGURES), sides, rows) == filled
    partly = run_of(peers, FIGURES)
    partly.facts["left_out"] = {"Odd": "Odd needs a JDK.\nsays pip"}
    assert "Odd is left out: Odd needs a JDK.\n" in page.filled(text, partly, sides, rows)
    with pytest.raises(page.PageError, match="markers"):
        page.filled(text.replace("behind -->", "ahead -->"), None, sides, rows)


def test_the_page_is_what_the_kept_run_gives(peers: Any) -> None:
    """`scripts/bench --peers --take` writes it, and `--page` after a change of a TOML file."""
    page = peers("page")
    text = page.PAGE.read_text()
    run, sides, rows = (
        peers("raw").read_taken(),
        peers("catalogue").all_sides(),
        peers("plan").rows(quick=False),
    )
    assert page.filled(text, run, sides, rows) == text, "run `scripts/bench --peers --page`"
    drawn = {} if run is None else page.pictures(run, rows, sides)
    assert {path.name for path in page.PICTURES.glob("peers-*.svg")} == set(drawn)
    for name, picture in drawn.items():
        assert (page.PICTURES / name).read_text() == picture, name


def test_a_picture_has_colours_for_both_and_says_what_it_shows(peers: Any, sides: list[Any]) -> None:
    """As the page's other pictures do; bars are as long as their figures."""
    page, rows = peers("page"), peers("plan").rows(quick=False)[:2]
    ((name, drawn),) = page.pictures(run_of(peers, FIGURES), rows, sides).items()
    assert name == "peers-w0-handlers.svg"
    light, dark = drawn.split("@media (prefers-color-scheme: dark)")
    used = set(re.findall(r'class="(\w+)', drawn))
    assert {"ours", "hand", "library"} < used
    assert {kind for kind in used if f".{kind} {{ fill: #" in light} >= {"ours", "hand", "library", "page"}
    assert all(f".{kind} {{ fill: #" in dark for kind in ("ours", "hand", "library", "page"))
    assert "no-op: bare loop 1,000, ours on threads 600, Odd library 580, Good library 300" in drawn
    widths = {
        kind: float(width) for kind, width in re.findall(r'class="(ours|hand)" .*? width="([\d.]+)"', drawn)
    }
    assert widths["ours"] / widths["hand"] == pytest.approx(0.6, abs=0.01)


def test_only_a_whole_run_is_taken(peers: Any, tmp_path: Path) -> None:
    """And it is read again as it was."""
    raw = peers("raw")
    run = run_of(peers, FIGURES)
    writer = raw.Writer(tmp_path / "build", run.facts)
    for one in run.measurements:
        writer.add(one)
    assert raw.read_run(tmp_path / "build") == run
    raw.take(run, tmp_path / "docs" / "raw.json")
    assert raw.read_taken(tmp_path / "docs" / "raw.json") == run
    assert raw.read_taken(tmp_path / "none.json") is None
    run.facts["part"] = "--quick"
    with pytest.raises(raw.RawError, match="only a part"):
        raw.take(run, tmp_path / "docs" / "raw.json")
    with pytest.raises(raw.RawError, match="run `scripts/bench --peers` first"):
        raw.read_run(tmp_path)
