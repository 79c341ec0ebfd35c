"""The site of the documentation: it is whole, leads nowhere else, and fetches nothing."""

from __future__ import annotations

import importlib
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# To build takes 10 s of a core.
pytestmark = pytest.mark.timeout(600)
# Elements that a browser fetches what they name for.
FETCHING = {"img", "script", "link", "iframe", "source", "object"}


class Page(HTMLParser):
    """The anchors of a page, and what it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag is called, and what it leads to."""
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        target = given.get("href") or given.get("src") or given.get("data")
        if target is not None:
            (self.fetched if tag in FETCHING else self.links).append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Sphinx's warnings are errors, shown here: links and lists of pages among them."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        ended = importlib.import_module("_docs_build").build(folder / "html", folder / "read")
    assert ended.returncode == 0, ended.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """All pages of the site by their files."""
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_page_and_example_is_there_and_the_first_leads_to_them(site: Path) -> None:
    """The site's root is not a page of its own: it sends the browser on."""
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"), ROOT / "DESIGN.md"]
    assert [
        page for page in sources if not (site / page.relative_to(ROOT)).with_suffix(".html").is_file()
    ] == []
    assert "url=docs/index.html" in (site / "index.html").read_text()


def test_what_no_program_calls_is_not_drawn(site: Path, pages: dict[Path, Page]) -> None:
    """A member of ehkafka's own, its field, and how a class is made that programs only get."""
    page = site / "docs" / "reference" / "api" / "endpoint.html"
    drawn = {anchor for anchor in pages[page].anchors if anchor.startswith("ehkafka.Endpoint.")}
    assert "ehkafka.Endpoint.kafka" in drawn
    assert "ehkafka.Endpoint.lend_broker" not in drawn
    text = page.read_text()
    assert "default_topic" in text
    assert "_made_of" not in text
    assert "<code>tokens</code>" not in re.sub(r"<(/?\w+)[^>]*>", r"<\1>", text)


def test_no_page_has_a_browser_ask_another_server(site: Path, pages: dict[Path, Page]) -> None:
    """Neither pages nor styles; what a reader follows is a reader's choice."""
    fetched = {target for page in pages.values() for target in page.fetched}
    assert {target for target in fetched if urlsplit(target).netloc} == set()
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "@import" not in styles
    assert "url(http" not in styles
    assert "url(//" not in styles


def test_every_link_between_pages_leads_to_a_place_that_is_there(pages: dict[Path, Page]) -> None:
    """Also those of lists, of the API and of files of code, which Sphinx writes itself."""
    broken = set()
    for path, page in pages.items():
        for target in (*page.links, *page.fetched):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[there].anchors if there in pages else None
            if not there.exists() or (anchors is not None and unquote(parts.fragment) not in anchors):
                broken.add(f"{path.name}: {target}")
    assert broken == set()


@pytest.mark.parametrize(
    ("name", "kind", "cells_without"), [("benchmark-figures", "wide", 1), ("survives", "very-wide", 0)]
)
def test_a_wide_table_has_the_name_of_its_column_in_each_cell(
    site: Path, name: str, kind: str, cells_without: int
) -> None:
    """It may be shown as a list, whose lines would be numbers without a meaning otherwise."""
    page = (site / "docs" / "project" / f"{name}.html").read_text()
    tables = re.findall(rf'<table class="(?:[^"]* )?{kind}[ "].*?</table>', page, re.DOTALL)
    assert len(tables) >= 2
    for table in tables:
        cells = re.findall(r"<td(?: [^>]*)?>.*?</td>", table, re.DOTALL)
        named = sum("column-name" in cell or 'class="empty' in cell for cell in cells)
        assert named == len(cells) - cells_without * table.partition("<tbody>")[2].count("<tr")


def test_lines_of_a_log_wrap_and_what_has_columns_does_not(site: Path) -> None:
    """A phone has no room for a sentence of the log; a wrapped table would not be read."""
    page = (site / "docs" / "operate" / "runbook.html").read_text()
    block = r'<div class="([^"]*\bhighlight-text\b[^"]*)"><[^>]*><pre>(?:<span></span>)?(\w+)'
    found = re.findall(block, page)
    wraps = {word: "sentences" in classes.split() for classes, word in found}
    assert (wraps["PARTITION"], wraps["KEY"], wraps["WARNING"]) == (False, False, True)
