"""The code with one guard less, and what must notice it: tables of texts."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@dataclass(frozen=True)
class Mutant:
    """One guard less, or several of which each alone would do."""

    rule: str
    # Functions, each by its class or module and its name, a text in it, and what is there instead.
    edits: tuple[tuple[Any, str, str, str], ...]
    # Raises when the guard is missing.
    killer: Callable[[], object]

    def __str__(self) -> str:
        return self.rule

    def is_noticed(self, patch: pytest.MonkeyPatch) -> bool:
        """Take the guard out; tell whether anything went wrong, be it by an error of the code's own."""
        for edit in self.edits:
            take_out(patch, *edit)
        try:
            self.killer()
        except (Exception, pytest.fail.Exception):
            return True
        return False


def take_out(patch: pytest.MonkeyPatch, owner: Any, name: str, guard: str, without: str) -> None:
    """Replace a text in a function of a class or module."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(guard) == 1, f"the guard is not there any more: {guard}"
    # In a function with the name by which `super()` finds the class; in the function's own file, so that what
    # steps through that file steps through this as well.
    inner = textwrap.indent(source.replace(guard, without), "    ")
    code = f"from __future__ import annotations\ndef make(__class__):\n{inner}\n    return {name}"
    module, made = sys.modules[function.__module__], dict[str, Any]()
    exec(compile(code, inspect.getfile(function), "exec"), vars(module), made)
    patch.setattr(owner, name, made["make"](owner))


def table(text: str, killer: Callable[..., object], *modules: ModuleType) -> list[Mutant]:
    r"""Read mutants; their classes, functions and tests are those of `modules`.

    Each begins with a line `Class.function: what is wrong without the guard`. Indented below: `the guard ->
    what is there instead`, in one line or two, where `\n` begins a new line of the source; perhaps `&
    Class.function` with another guard that goes as well; and perhaps `by` what notices: a test, or options of
    `killer`, which else has none.
    """
    return [_read(block, killer, modules) for block in re.split(r"\n(?=\S)", text.strip())]


def _read(block: str, killer: Callable[..., object], modules: tuple[ModuleType, ...]) -> Mutant:
    head, *lines = re.sub(r"\n +->", " ->", block).splitlines()
    place, rule = head.split(": ", 1)
    edits = []
    for line in map(str.strip, lines):
        if line.startswith("by "):
            test, options = re.findall(r"by (\w+\b(?!=))? ?(.*)", line)[0]
            named = {module.__name__.rpartition(".")[2]: module for module in modules}
            killer = partial(_find(test, modules) if test else killer, **eval(f"dict({options})", named))
        elif line.startswith("& "):
            place = line.removeprefix("& ")
        else:
            owner, name = place.split(".")
            guard, without = re.split(r" ->(?: |$)", line.replace(r"\n", "\n"))
            edits.append((_find(owner, modules), name, guard, without))
    return Mutant(rule, tuple(edits), killer)


def _find(name: str, modules: tuple[ModuleType, ...]) -> Any:
    """Return a module, or what one of them defines."""
    for module in modules:
        if module.__name__.endswith(f".{name}"):
            return module
        found = vars(module).get(name)
        if getattr(found, "__module__", None) == module.__name__:
            return found
    raise LookupError(f"no module defines {name}")
