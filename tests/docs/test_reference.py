"""Pages of the reference that are written by people name all that is declared; others are generated."""

from __future__ import annotations

import re
from typing import Any

import typer

from ehkafka.cli.commands import cli
from ehkafka.telemetry.catalogue import ALL
from tests.kit.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
COMMANDS: Any = typer.main.get_command(cli)


def test_every_command_has_its_line_and_no_other_has_one() -> None:
    """In the table of commands; the options are those of `--help`."""
    table = (REFERENCE / "commands.md").read_text().partition("| command | what it does |")[2]
    named = set(re.findall(r"^\| `ehkafka (\w+)", table.partition("\n\n")[0], re.MULTILINE))
    assert named == {name for name, command in COMMANDS.commands.items() if not command.hidden}


def test_every_metric_is_on_the_page_of_metrics() -> None:
    """By its whole name, or by the ending that its row has."""
    text = (REFERENCE / "metrics.md").read_text()
    assert [metric.name for metric in ALL if metric.name.removeprefix("ehkafka_") not in text] == []
