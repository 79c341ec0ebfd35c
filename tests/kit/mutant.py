"""One function of the pure core with one guard less."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


@dataclass(frozen=True)
class Mutant:
    """One guard less. `is_red` tells whether anything noticed."""

    name: str
    function: Callable[..., object]
    guard: str
    without: str
    is_red: Callable[[], bool]

    def __str__(self) -> str:
        return self.name

    def is_noticed(self) -> bool:
        """Tell whether anything noticed, be it by an error of the core's own."""
        try:
            return self.is_red()
        except Exception:
            return True

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the function by its mutant."""
        source = textwrap.dedent(inspect.getsource(self.function))
        assert source.count(self.guard) == 1, f"the guard is not there any more: {self.guard}"
        module = sys.modules[self.function.__module__]
        owner, _, name = self.function.__qualname__.rpartition(".")
        # In a function with the name by which `super()` finds the class.
        inner = textwrap.indent(source.replace(self.guard, self.without), "    ")
        code = f"from __future__ import annotations\ndef make(__class__):\n{inner}\n    return {name}"
        made: dict[str, Any] = {}
        exec(compile(code, f"<{self.name}>", "exec"), vars(module), made)
        holder = getattr(module, owner) if owner else module
        patch.setattr(holder, name, made["make"](holder))


def fails(test: Callable[[], None]) -> bool:
    """Tell whether a test fails."""
    try:
        test()
    except AssertionError:
        return True
    return False
