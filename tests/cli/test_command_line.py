"""Options that are declared once and taken by several commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ehkafka.cli.command_line import CommandLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A group with an option that must be given."""

    where: Annotated[str, typer.Option("--from", help="Where from.")]
    times: Annotated[int, typer.Option(min=1)] = 1


def program() -> tuple[typer.Typer, list[tuple[str, Place]]]:
    """Return a program of one command, and what that was called with."""
    calls: list[tuple[str, Place]] = []
    found = CommandLine()

    def go(name: Annotated[str, typer.Argument()], *, place: Place) -> None:
        """Go."""
        calls.append((name, place))

    # Its annotations name what only this function knows.
    go.__annotations__ = {"name": Annotated[str, typer.Argument()], "place": Place, "return": None}
    found.command()(go)
    return found, calls


def test_a_group_comes_to_the_command_as_one_value() -> None:
    """With its defaults where nothing was given."""
    found, calls = program()
    ended = CliRunner().invoke(found, ["x", "--from", "here"])
    assert ended.exit_code == 0, ended.output
    assert calls == [("x", Place(where="here", times=1))]


@pytest.mark.parametrize("arguments", [["x"], ["x", "--from", "here", "--times", "0"], ["--from", "here"]])
def test_what_must_be_given_or_is_out_of_bounds_is_refused(arguments: list[str]) -> None:
    """As for options that are no group's."""
    found, calls = program()
    assert CliRunner().invoke(found, arguments).exit_code == 2
    assert calls == []


def test_an_option_is_no_value_of_the_option_before_it() -> None:
    """`--endpoint --json` lacks an address; the form with `=` can still give such a text."""
    found, calls = program()
    refused = CliRunner().invoke(found, ["x", "--from", "--times", "2"])
    assert refused.exit_code == 2
    assert "--from has no value, because the option --times follows it: give --from VALUE" in refused.stderr
    assert CliRunner().invoke(found, ["x", "--from=--times", "--times", "2"]).exit_code == 0
    assert calls == [("x", Place(where="--times", times=2))]
