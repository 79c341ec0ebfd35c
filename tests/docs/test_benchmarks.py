"""The short page of benchmarks states no figure of its own: each is on the page with all of them."""

from __future__ import annotations

import re

from tests.kit.pages import ROOT

PROJECT = ROOT / "docs" / "project"
# Speeds have commas, ratios and times a point.
FIGURE = re.compile(r"\d+(?:[.,]\d+)+")


def test_each_figure_of_the_short_page_is_one_of_all_figures() -> None:
    """A ratio that is measured again is changed on both pages, or the short one is wrong."""
    short, every = (
        set(FIGURE.findall((PROJECT / f"{name}.md").read_text()))
        for name in ("benchmarks", "benchmark-figures")
    )
    assert len(short) > 20
    assert short - every == set()
