"""`help` on something with many options shows each on a line of its own, with its true default.

A line is ``- `name` (seconds, default `30.0`): …``: the unit where there is one, then the default as it would
be typed, or `required`.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ehkafka
from ehkafka.checks.target import Target
from ehkafka.checks.topic_reader import TopicReader
from ehkafka.endpoint import Endpoint
from ehkafka.recovery.letters.letter import LetterFilter
from ehkafka.redrive.redrive import Redrive
from ehkafka.settings import Settings
from ehkafka.testing import AppTest, arun, make_record, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# With so many a reader looks for one of them instead of reading all.
OPTIONS_MANY = 6
CALLABLES: tuple[Callable[..., Any], ...] = (
    ehkafka.App,
    ehkafka.App.handler,
    ehkafka.App.run,
    ehkafka.App.batch_handler,
    ehkafka.App.run,
    ehkafka.App.run_on_spark,
    ehkafka.BlobMirror,
    ehkafka.Consumer,
    ehkafka.DeadLetter,
    ehkafka.Processes,
    ehkafka.Retry,
    Redrive,
    Settings,
    Target,
    TopicReader,
    AppTest.send,
    arun,
    make_record,
    run,
)
# Where a program finds what it calls.
FACES = (
    "checks",
    "offsets",
    "redrive",
    "spark",
    "settings",
    "checkpoints",
    "recovery",
    "records",
    "embedded",
)
# What a program gets and reads, made by us. An `Endpoint` is made by its factories, which have few options.
GOTTEN = {"CheckResult", "Move", "PartitionView", Endpoint.__name__}

LINE = re.compile(r"^ *- `(?P<name>\*{0,2}\w+)`(?: \((?P<facts>[^)]*(?:\([^)]*\)[^)]*)*)\))?: ")
DEFAULT = re.compile(r"(?:^|, )default `(?P<default>.*)`$")
# What defaults are written with.
NAMES = {**{name: getattr(ehkafka, name) for name in ehkafka.__all__}, "LetterFilter": LetterFilter}


class Line(NamedTuple):
    """One option as it is written."""

    name: str
    facts: str


def lines_of(thing: Callable[..., Any]) -> dict[str, Line]:
    """Return the lines of a docstring by the option's name, without asterisks."""
    found = [match for line in (inspect.getdoc(thing) or "").splitlines() if (match := LINE.match(line))]
    return {match["name"].lstrip("*"): Line(match["name"], match["facts"] or "") for match in found}


def options_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what a caller may give."""
    return {name: one for name, one in inspect.signature(thing).parameters.items() if name != "self"}


def flaws(thing: Callable[..., Any]) -> Iterator[str]:
    """Say what is missing, stale or wrong in the lines of a docstring."""
    lines, options = lines_of(thing), options_of(thing)
    factories = {
        field.name: field.default_factory
        for field in (dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ())
        if field.default_factory is not dataclasses.MISSING
    }
    for name, option in options.items():
        if option.kind in {option.VAR_POSITIONAL, option.VAR_KEYWORD}:
            if not re.search(rf"`\*+{name}`", inspect.getdoc(thing) or ""):
                yield f"{name} has no line"
        elif name not in lines:
            yield f"{name} has no line"
        elif option.default is option.empty:
            if lines[name].facts != "required":
                yield f"{name} is required, the line says {lines[name].facts!r}"
        else:
            default = factories[name]() if name in factories else option.default
            yield from _flaw_of_default(lines[name], default)


def _flaw_of_default(line: Line, default: object) -> Iterator[str]:
    stated = DEFAULT.search(line.facts)
    if getattr(default, "__name__", "") == "<lambda>":
        return  # cannot be typed; the line says it in words
    if stated is None:
        yield f"{line.name} has the default {default!r}, its line none"
    elif (value := eval(stated["default"], {}, NAMES)) != default or type(value) is not type(default):
        yield f"{line.name} has the default {default!r}, its line {stated['default']}"


@pytest.mark.parametrize("thing", CALLABLES, ids=lambda thing: thing.__qualname__)
def test_each_option_has_its_line_and_its_default(thing: Callable[..., Any]) -> None:
    """In the docstring, so that an editor and `help` show it."""
    assert list(flaws(thing)) == []


def test_all_that_has_many_options_is_looked_at() -> None:
    """A function that grows its sixth option is found here."""
    found = {thing for thing in _public() if len(options_of(thing)) >= OPTIONS_MANY}
    assert {thing.__qualname__ for thing in found - set(CALLABLES)} <= GOTTEN


def _public() -> Iterator[Callable[..., Any]]:
    modules = [importlib.import_module(f"ehkafka.{face}") for face in FACES]
    named = [getattr(ehkafka, name) for name in ehkafka.__all__]
    named += [thing for module in modules for name, thing in vars(module).items() if name[0] != "_"]
    for thing in named:
        if inspect.isfunction(thing):
            yield thing
        elif inspect.isclass(thing) and _is_ours(thing) and not issubclass(thing, (enum.Enum, BaseException)):
            yield thing
            yield from (
                method
                for name, method in inspect.getmembers(thing, inspect.isroutine)
                if name[0] != "_" and _is_ours(method)
            )


def _is_ours(thing: object) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("ehkafka")
