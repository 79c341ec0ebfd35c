"""Each parameter that a page of the API draws has a line: what it means, its unit, its true default.

A line is ``- `name` (seconds, default `30.0`): …``: the unit where there is one, then the default as it would
be typed, or `required`. A docstring may name where the lines are (`Arguments are those of …`). A class with
`Made by` in its docstring is not called by programs; its public fields have a comment each.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import logging
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ehkafka
from ehkafka.checks.topic_reader import TopicReader
from ehkafka.recovery.letters.letter import LetterFilter
from tests.kit.api_pages import drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The last one is on no page, and yet called by programs.
CALLABLES = {**{one.name: one.thing for one in drawn()}, "TopicReader": TopicReader}

LINE = re.compile(
    r"(?P<indent> *)- `(?P<name>\*{0,2}\w+)`(?: \((?P<facts>[^)]*(?:\([^)]*\)[^)]*)*)\))?: *(?P<words>.*)"
)
DEFAULT = re.compile(r"(?:^|, )default `(?P<default>.*)`$")
ELSEWHERE = re.compile(r"[Aa]rguments are those of `(?P<name>[\w.]+)`")
UNITS = {
    "_s": "seconds",
    "_s_max": "seconds",
    "_ms": "milliseconds",
    "_us": "microseconds",
    "_bytes": "bytes",
}
# What defaults are written with.
NAMES = {
    "logging": logging,
    **{name: getattr(ehkafka, name) for name in ehkafka.__all__},
    "LetterFilter": LetterFilter,
}


class Line(NamedTuple):
    """One parameter as it is written."""

    name: str
    facts: str
    words: str


def lines_of(thing: Callable[..., Any]) -> dict[str, Line]:
    """Return the lines of a docstring by the parameter's name, without asterisks; none of inner lists."""
    return {one.name.lstrip("*"): one for one in _written(thing)}


def _written(thing: Callable[..., Any]) -> list[Line]:
    found = [match for line in _doc(thing).splitlines() if (match := LINE.match(line))]
    outer = [match for match in found if not match["indent"]]
    return [Line(match["name"], match["facts"] or "", match["words"]) for match in outer]


def all_lines_of(thing: Callable[..., Any]) -> dict[str, Line]:
    """Return also those that stand where the docstring says."""
    elsewhere = ELSEWHERE.search(_doc(thing))
    there = all_lines_of(_named(elsewhere["name"], thing)) if elsewhere else {}
    return {**there, **lines_of(thing)}


def options_of(thing: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what a caller may give."""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # an exception that takes what its base takes
        return {}
    return {name: one for name, one in signature.parameters.items() if name not in ("self", "cls")}


def flaws(thing: Any) -> Iterator[str]:
    """Say what is missing, stale or wrong in the lines of a docstring."""
    yield from (f"code breaks behind {line!r}" for line in _prose(thing) if line.count("`") % 2)
    if inspect.isclass(thing) and "Made by " in _doc(thing):
        yield from _flaws_of_fields(thing)
    if is_never_called(thing) or _doc(thing).startswith("See `confluent_kafka."):
        return
    lines, options = lines_of(thing), options_of(thing)
    if len(lines) < len(_written(thing)):
        yield "a parameter has two lines"
    for name in lines.keys() - options.keys():
        yield f"{name} has a line, and is no parameter"
    lines = all_lines_of(thing)
    factories = {
        field.name: field.default_factory
        for field in (dataclasses.fields(thing) if dataclasses.is_dataclass(thing) else ())
        if field.default_factory is not dataclasses.MISSING
    }
    for name, option in options.items():
        if name not in lines or not lines[name].words:
            yield f"{name} has no line"
        elif option.kind not in {option.VAR_POSITIONAL, option.VAR_KEYWORD}:
            default = factories[name]() if name in factories else option.default
            yield from _flaws_of_facts(lines[name], default)


def is_never_called(thing: Any) -> bool:
    """Tell whether a program has no use for the signature of a class."""
    return inspect.isclass(thing) and (
        "Made by " in _doc(thing) or issubclass(thing, enum.Enum) or getattr(thing, "_is_protocol", False)
    )


def _flaws_of_facts(line: Line, default: object) -> Iterator[str]:
    unit = next((unit for end, unit in UNITS.items() if line.name.endswith(end)), "")
    if not line.facts.startswith(unit):
        yield f"{line.name} is in {unit}, the line says {line.facts!r}"
    if line.words.strip("`. ").removeprefix("the ").replace(" ", "_") == line.name:
        yield f"{line.name} has a line that says its name alone"
    stated = DEFAULT.search(line.facts)
    if default is inspect.Parameter.empty:
        if not re.fullmatch(r"(.+, )?required", line.facts):
            yield f"{line.name} is required, the line says {line.facts!r}"
    elif "<" in repr(default) and not isinstance(default, type):
        return  # cannot be typed; the line says it in words
    elif stated is None:
        yield f"{line.name} has the default {default!r}, its line none"
    elif (value := eval(stated["default"], {}, NAMES)) != default or type(value) is not type(default):
        yield f"{line.name} has the default {default!r}, its line {stated['default']}"


def _flaws_of_fields(kind: type) -> Iterator[str]:
    """Say which public field has neither a comment above it nor a line."""
    if not dataclasses.is_dataclass(kind):
        return
    source = textwrap.dedent(inspect.getsource(kind))
    lines = source.splitlines()
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            is_explained = lines[node.lineno - 2].strip().startswith("#") or node.target.id in lines_of(kind)
            if node.target.id[0] != "_" and not is_explained:
                yield f"{node.target.id} has no comment"


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _prose(thing: object) -> Iterator[str]:
    """Yield the lines of a docstring outside of blocks of code."""
    for place, part in enumerate(_doc(thing).split("```")):
        yield from part.splitlines() if place % 2 == 0 else ()


def _named(name: str, near: Any) -> Any:
    """Return what a docstring names: of the same class, its module, or the package."""
    module = sys.modules[near.__module__]
    owner = getattr(module, near.__qualname__.partition(".")[0])
    first, *rest = name.removeprefix("ehkafka.").split(".")
    places = [place for place in (owner, module, ehkafka) if hasattr(place, first)]
    thing = getattr(places[0], first)
    for part in rest:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_each_parameter_has_its_line_and_its_default(name: str) -> None:
    """In the docstring, so that an editor, `help` and the site show it."""
    assert sorted(flaws(CALLABLES[name])) == []


def wait_for(name: str, *, timeout_s: float = 1.0, more: int | None = None) -> None:
    """Do it.

    - `name` (required): as the broker has it.
    - `timeout_s` (seconds, default `1.0`): the longest wait.
    - `more` (default `None`): how many more. None: as many as there are.
    """


@dataclasses.dataclass
class Shown:
    """Made by a test."""

    # Where it was.
    place: str
    _hidden: int


@pytest.mark.parametrize(
    ("thing", "was", "written", "flaw"),
    [
        (wait_for, "- `name` (required): as the broker has it.\n", "", "name has no line"),
        (wait_for, "as the broker has it.", "", "name has no line"),
        (wait_for, "as the broker has it", "the name", "name has a line that says its name alone"),
        (wait_for, "name", "nome", "nome has a line, and is no parameter"),
        (wait_for, "(required)", "(default `None`)", "name is required, the line says 'default `None`'"),
        (wait_for, "`1.0`", "`2.0`", "timeout_s has the default 1.0, its line 2.0"),
        (wait_for, "`1.0`", "`1`", "timeout_s has the default 1.0, its line 1"),
        (wait_for, "(seconds, ", "(", "timeout_s is in seconds, the line says 'default `1.0`'"),
        (wait_for, "Do it.", "- `name` (required): twice.", "a parameter has two lines"),
        (wait_for, "Do it.", "Do `this\nnow`.", "code breaks behind 'Do `this'"),
        (wait_for, " (default `None`)", "", "more has the default None, its line none"),
        (Shown, "Made by a test.", "A place.", "place has no line"),
    ],
)
def test_a_line_that_is_missing_stale_or_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, thing: Any, was: str, written: str, flaw: str
) -> None:
    """The same docstring without the fault has none."""
    assert list(flaws(thing)) == []
    monkeypatch.setattr(thing, "__doc__", thing.__doc__.replace(was, written))
    assert flaw in set(flaws(thing))


def test_a_field_without_a_comment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a class that programs only read."""
    monkeypatch.setattr(
        inspect, "getsource", lambda _kind: "class Shown:\n    place: str\n    _hidden: int\n"
    )
    assert list(flaws(Shown)) == ["place has no comment"]
