"""The page that compares libraries proves what it states of others, and the README's table agrees with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = (ROOT / "docs" / "project" / "comparison.md").read_text()
LIBRARIES = (
    *("confluent-kafka", "aiokafka", "FastStream", "Quix Streams", "arroyo"),
    *("pyrallel-consumer", "parallel-consumer", "azure-eventhub", "Celery"),
)


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each line of a table, the heads left out."""
    for table in re.findall(r"(?<=\n\n)(?:\|.*\n)+", text):
        yield from ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:])


def named(cell: str) -> set[str]:
    """Return the libraries that a cell names."""
    return {name for name in LIBRARIES if re.search(rf"(?<![a-z]){name}", cell.replace("](", "] ("))}


def test_each_statement_has_a_link_to_its_source_or_admits_that_there_is_none() -> None:
    """The first table sums up the others, which name every library."""
    for section in TEXT.split("\n## ")[2:]:
        found = [cells for cells in rows(section) if "**ehkafka**" not in cells[0]]
        assert [
            cells for cells in found if not re.search(r"\(https://|[Nn]ot documented", "".join(cells))
        ] == []
        if found:
            assert set.union(*(named(cells[0]) for cells in found)) == set(LIBRARIES), section[:40]


def test_the_readme_has_the_same_order_for_each_library() -> None:
    """Its table is shorter and has several libraries in a line."""
    order = {name: cells[2] for cells in rows(TEXT.split("\n## ")[1]) for name in named(cells[0])}
    readme = (ROOT / "README.md").read_text().partition("## Is it for you?")[2].partition("\n## ")[0]
    short = {name: cells[2] for cells in rows(readme) for name in named(cells[0])}
    assert len(short) >= 7
    assert {name: order[name] for name in short} == short
