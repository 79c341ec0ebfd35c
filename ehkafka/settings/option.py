"""One option of a class, declared once, at the class's field: type, default, unit, words and check.

From the declaration come the check, the class's docstring, what files and variables may say, and the words
of `ehkafka config`; `python -m tests.typing.declared` writes keyword types for editors and tables of docs.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

# Beyond these a number is a mistake of units; timers and counters of the system take more.
SECONDS_MAX: Final = 366 * 86_400
_COUNT_MAX: Final = 1 << 50
# What a name says of its values.
_UNITS: Final = {"_s": "seconds", "_s_max": "seconds", "records": "records", "bytes": "bytes"}

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True, slots=True)
class Option:
    """What is declared of one option.

    `default` is `MISSING` where a value is required, a class where it is made by calling that; where it is
    None, None is permitted. The first sentence of `words` fits in a line. A `section` begins with its first
    option. Numbers are `least` or more, or `above` something, and `most` or less. A `rule` replaces what is
    checked otherwise: it raises `ConfigurationError`.
    """

    default: Any
    words: str
    section: str = ""
    unit: str = ""
    one_of: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    rule: Callable[[Any], object] | None = None
    name: str = ""
    type: str = ""

    @property
    def meaning(self) -> str:
        """What it decides, in one line."""
        return self.words.partition(". ")[0].removesuffix(".")

    @property
    def facts(self) -> str:
        """Its unit and its default as a program would write it."""
        if self.default is MISSING:
            return "required"
        typed = repr(self.default() if isinstance(self.default, type) else self.default)
        if isinstance(self.default, str):
            typed = f'"{self.default}"'
        return f"{self.unit}, default `{typed}`".removeprefix(", ")

    def check(self, value: object) -> None:
        """Refuse a value that cannot work. Raises `ConfigurationError`."""
        if value is None and self.default is None:
            return
        if self.rule is not None:
            self.rule(value)
        elif self.one_of and value not in self.one_of:
            *others, last = map(repr, self.one_of)
            raise ConfigurationError(f"{self.name}={value!r} is unknown; use {', '.join(others)} or {last}.")
        elif self.least is not None or self.above is not None:
            self._check_number(value)

    def _check_number(self, value: Any) -> None:
        kind, kinds, most = "whole number", int, self.most or _COUNT_MAX
        if self.unit == "seconds":
            kind, kinds, most = "number", int | float, self.most or SECONDS_MAX
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if self.above is not None:
            is_within, bound = (
                is_number and self.above < value <= most,
                f"above {self.above} and up to {most}",
            )
        else:
            is_within, bound = is_number and self.least <= value <= most, f"from {self.least} to {most}"
        if not is_within:
            raise ConfigurationError(f"{self.name}={value!r}: it must be a {kind} {bound}.")


def option(default: Any, words: str, **more: Any) -> Any:
    """Return the field of a dataclass that is an option; `more` are the other fields of `Option`."""
    declared = Option(default, words, **more)
    if isinstance(default, type):
        return field(default_factory=default, metadata={"option": declared})
    return field(default=default, metadata={"option": declared})


@cache
def options_of(kind: type) -> tuple[Option, ...]:
    """Return the options of a dataclass, in their order."""
    found = [one for one in fields(kind) if "option" in one.metadata]
    return tuple(
        replace(one.metadata["option"], name=one.name, type=str(one.type), unit=_unit_of(one))
        for one in found
    )


def documented(kind: Kind) -> Kind:
    """Add a line for each option to the docstring of a dataclass: `help` shows it."""
    parts = [kind.__doc__ or ""]
    for one in options_of(kind):
        parts += [f"\n{one.section}\n"] if one.section else []
        parts += [f"- `{one.name}` ({one.facts}): {one.words}"]
    kind.__doc__ = "\n".join(parts)
    return kind


def _unit_of(one: Any) -> str:
    if given := one.metadata["option"].unit:
        return str(given)
    if "timedelta" in str(one.type):
        return "a timedelta"
    return next(
        (unit for part, unit in _UNITS.items() if one.name.endswith(part) or f"{part}_" in one.name), ""
    )
