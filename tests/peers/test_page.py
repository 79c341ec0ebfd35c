"""The page: its generated parts from made-up data, and the one that is there from the data that is there."""

from __future__ import annotations

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
    assert behind.behind(ahead) == "In this run, ehkafka is behind at no work."


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


def test_only_a_whole_run_is_taken(peers: Any, tmp_path: Path) -> None:
    """And it is read again as it was."""
    raw = peers("raw")
    run = run_of(peers, FIGURES)
    writer = raw.Writer(tmp_path / "build", run.facts)
    for one in run.measurements:
        writer.add(one)
    writer.end()
    assert raw.read_run(tmp_path / "build") == run
    raw.take(run, tmp_path / "docs" / "raw.json")
    assert raw.read_taken(tmp_path / "docs" / "raw.json") == run
    assert raw.read_taken(tmp_path / "none.json") is None
    run.facts["part"] = "--quick"
    with pytest.raises(raw.RawError, match="only a part"):
        raw.take(run, tmp_path / "docs" / "raw.json")
    with pytest.raises(raw.RawError, match="run `scripts/bench --peers` first"):
        raw.read_run(tmp_path)


def test_a_run_that_was_interrupted_counts_by_its_whole_rounds(peers: Any, tmp_path: Path) -> None:
    """The page says how many they are; what was measured of the last one is left out."""
    raw = peers("raw")
    writer = raw.Writer(tmp_path, {"rounds": 3, "part": ""})
    measured = [{"row": "W0", "side": side, "round": number} for number in range(3) for side in "ab"]
    for one in measured[:2]:
        writer.add(one)
    with pytest.raises(raw.RawError, match="interrupted in its first round"):
        raw.read_run(tmp_path)
    for one in measured[2:5]:
        writer.add(one)
    assert raw.read_run(tmp_path) == raw.Run({"rounds": 2, "part": ""}, measured[:4])


def test_the_first_run_makes_the_folder_of_its_pictures(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout without one has no such folder."""
    page = peers("page")
    copy = tmp_path / "peers.md"
    copy.write_text(page.PAGE.read_text())
    monkeypatch.setattr(page, "PAGE", copy)
    monkeypatch.setattr(page, "PICTURES", tmp_path / "pictures")
    page.write_page(run_of(peers, FIGURES))
    assert list((tmp_path / "pictures").glob("peers-*.svg"))
