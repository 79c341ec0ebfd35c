"""One option of a class, declared once, at the class's field: type, default, unit, words and check.

From the declaration come the check, the class's docstring, what files and variables may say, and the words
of `ehkafka config`; `python -m tests.typing.declared` writes keyword types for editors and tables of docs.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Beyond these a number is a mistake of units; timers and counters of the system take more.
SECONDS_MAX: Final = 366 * 86_400
_COUNT_MAX: Final = 1 << 50
# What a name says of its values.
_UNITS: Final = {"_s": "seconds", "_s_max": "seconds", "records": "records", "bytes": "bytes"}

# By the class; what was declared stays so.
_options: Final[dict[type, tuple[Option, ...]]] = {}

Kind = TypeVar("Kind", bound=type)
Method = TypeVar("Method", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Option:
    """What is declared of one option.

    `default` is `MISSING` where a value is required, `dict` for an empty one; where it is None, None is
    permitted. `typed` is how a program would write it, where that is not its name or repr. The first sentence
    of `words` fits in a line, and a `section` begins with its first option. `given` is the type that a
    program gives, where the field has another, `only` the kind of handler that has it; with `outside` files
    and variables may set it, too.

    Values are `one_of` some, or numbers (`least` or more, or `above` something, and `most` or less), or what
    `fits`; a `rule` checks by itself and raises `ConfigurationError`. `use` ends the error.
    """

    default: Any
    words: str
    section: str = ""
    unit: str = ""
    typed: str = ""
    given: str = ""
    only: str = ""
    outside: bool = False
    one_of: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None
    fits: Callable[[Any], bool] | None = None
    rule: Callable[[Any], object] | None = None
    use: str = ""
    name: str = ""
    type: str = ""

    @property
    def meaning(self) -> str:
        """What it decides, in one line."""
        return self.words.partition(". ")[0].removesuffix(".")

    @property
    def line(self) -> str:
        """Its line in a docstring."""
        return f"- `{self.name}` ({self.facts}): {self.words}"

    @property
    def facts(self) -> str:
        """Its unit and its default as a program would write it."""
        if self.default is MISSING:
            return "required"
        typed = self.typed or getattr(self.default, "__name__", None) or repr(self.default)
        if isinstance(self.default, str):
            typed = f'"{self.default}"'
        return f"{self.unit}, default `{typed}`".removeprefix(", ")

    def problem(self, value: object) -> str:
        """Return what is wrong with a value, to follow it in the error; nothing where it can work.

        Raises `ConfigurationError` by its own rule.
        """
        if value is None and self.default is None:
            return ""
        if self.rule is not None:
            self.rule(value)
        elif self.one_of and value not in self.one_of:
            *others, last = map(repr, self.one_of)
            return f" is unknown; use {', '.join(others)} or {last}."
        elif self.fits is not None:
            return "" if self.fits(value) else f"; {self.use}"
        elif (self.least is not None or self.above is not None) and (wanted := self._no_number(value)):
            return f"; {self.use}" if self.use else f": it must be a {wanted}."
        return ""

    def _no_number(self, value: Any) -> str:
        is_float = "float" in self.type
        kind = "number" if is_float else "whole number"
        most = self.most or (SECONDS_MAX if is_float else _COUNT_MAX)
        is_number = isinstance(value, int | float if is_float else int) and not isinstance(value, bool)
        if self.above is not None:
            is_within, bound = (
                is_number and self.above < value <= most,
                f"above {self.above} and up to {most}",
            )
        else:
            is_within, bound = is_number and self.least <= value <= most, f"from {self.least} to {most}"
        return "" if is_within else f"{kind} {bound}"


def option(default: Any, words: str, **more: Any) -> Any:
    """Return the field of a dataclass that is an option; `more` are the other fields of `Option`."""
    declared = Option(default, words, **more)
    if default is dict:
        return field(default_factory=dict, metadata={"option": declared})
    return field(default=default, metadata={"option": declared})


def options_of(kind: type) -> tuple[Option, ...]:
    """Return the options of a dataclass, in their order."""
    if kind not in _options:
        found = [one for one in fields(kind) if "option" in one.metadata]
        _options[kind] = tuple(
            replace(one.metadata["option"], name=one.name, type=str(one.type), unit=_unit_of(one))
            for one in found
        )
    return _options[kind]


def options_for(kind: type, handler: str) -> tuple[Option, ...]:
    """Return those of a handler of "records" or of "batches"."""
    return tuple(one for one in options_of(kind) if one.only in ("", handler))


def check_options(holder: Any) -> None:
    """Refuse the first value of a dataclass's options that cannot work. Raises `ConfigurationError`."""
    for one in options_of(type(holder)):
        value = getattr(holder, one.name)
        if problem := one.problem(value):
            raise ConfigurationError(f"{one.name}={value!r}{problem}")


def documented(kind: Kind) -> Kind:
    """Add a line for each option to the docstring of a dataclass: `help` shows it."""
    return documented_by(kind)(kind)


def documented_by(options: type) -> Callable[[Kind], Kind]:
    """Add the lines of a dataclass's options to the docstring of a class that takes them."""

    def decorate(kind: Kind) -> Kind:
        kind.__doc__ = _with_lines(inspect.cleandoc(kind.__doc__ or ""), options_of(options))
        return kind

    return decorate


def takes_options(kind: type, handler: str = "") -> Callable[[Method], Method]:
    """Give a method with `**options` those of a dataclass: in its signature and its docstring.

    With `**properties` it takes others, too.
    """

    def decorate(method: Method) -> Method:
        options = options_for(kind, handler)
        signature = inspect.signature(method)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        rest = [one for one in signature.parameters.values() if one.name == "properties"]
        named = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=one.given or one.type,
            )
            for one in options
        ]
        method.__signature__ = signature.replace(parameters=[*own, *named, *rest])  # type: ignore[attr-defined]
        method.__doc__ = _with_lines(inspect.cleandoc(method.__doc__ or ""), options)
        return method

    return decorate


def _with_lines(doc: str | None, options: Iterable[Option]) -> str:
    parts = [doc or ""]
    for one in options:
        parts += [f"\n{one.section}\n"] if one.section else []
        parts += [one.line]
    return "\n".join(parts)


def _unit_of(one: Any) -> str:
    if given := one.metadata["option"].unit:
        return str(given)
    if "timedelta" in str(one.type):
        return "a timedelta"
    return next(
        (unit for part, unit in _UNITS.items() if one.name.endswith(part) or f"{part}_" in one.name), ""
    )
