"""Options of handlers from outside: `[handlers.readings]`, `EHKAFKA_HANDLER_READINGS_WORKERS`, `--set`.

Read before the app is imported, before its handlers are known: a variable's name is taken apart
by `resolved`, which gets them. A file's and a flag's values are checked as they are read, a variable's then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.app.handler_options import (
    OPTIONS,
    key_of,
    several_handlers,
    unknown_handler,
    unknown_option,
)
from ehkafka.cli.settings.layer import NAMES, PREFIX, HandlerValue
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended
from ehkafka.wording.calling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ehkafka.app.handler_options import Tunable

VARIABLE: Final = f"{PREFIX}HANDLER_"
"""What the variables of handlers begin with."""


class Resolved(NamedTuple):
    """Values by handler and option, and their origins as `App.configure` takes them."""

    options: dict[str, dict[str, Any]]
    origins: dict[str, str]


def from_table(path: Path, table: Mapping[str, Any]) -> Iterator[HandlerValue]:
    """Yield what the table `[handlers]` of a file says. Raises `ConfigurationError`."""
    for name, options in table.items():
        if not isinstance(options, dict):
            raise ConfigurationError(f"{path}: handlers.{name} is not a table; write [handlers.{name}].")
        for option, value in options.items():
            origin = f"{path}: handlers.{name}.{option}"
            if option not in OPTIONS:
                raise ConfigurationError(
                    ended(
                        f"{path}: there is no option handlers.{name}.{option}{did_you_mean(option, OPTIONS)}"
                    )
                )
            yield _checked(name, option, value, origin, is_text=False)


def from_variable(variable: str, text: str) -> HandlerValue:
    """Return what a variable says."""
    return HandlerValue(variable.removeprefix(VARIABLE), None, text, variable)


def from_flag(name: str, text: str) -> HandlerValue | None:
    """Return what `--set HANDLER.OPTION=TEXT` says; None where the name is none of a handler's options.

    Raises `ConfigurationError`.
    """
    handler, dot, option = name.rpartition(".")
    if not dot or not handler or option not in OPTIONS:
        return None
    return _checked(handler, option, text, f"--set {name}", is_text=True)


def names_like(name: str) -> tuple[str, ...]:
    """Return what `--set` takes, for a guess at what a wrong name meant."""
    handler, dot, _ = name.rpartition(".")
    return (*NAMES, *(f"{handler}.{option}" for option in OPTIONS if dot and handler))


def hint(name: str, *, of: str) -> str:
    """Return how to set an option of a handler that was written as a setting of the app, or nothing."""
    return f": it belongs to one handler, so write {of}" if name in OPTIONS else ""


def resolved(values: Iterable[HandlerValue], handlers: Sequence[Tunable]) -> Resolved:
    """Return what is laid over an app's handlers; a later value over an earlier one.

    Raises `ConfigurationError` for a variable that fits no handler, or more than one.
    """
    found = Resolved({}, {})
    for value in values:
        if value.option is None:
            handler, option = _taken_apart(value, handlers)
            value = _checked(handler, option, value.value, value.origin, is_text=True)  # noqa: PLW2901
        assert value.option is not None
        found.options.setdefault(value.name, {})[value.option] = value.value
        found.origins[key_of(value.name, value.option)] = value.origin
    return found


def _checked(name: str, option: str, value: Any, origin: str, *, is_text: bool) -> HandlerValue:
    from ehkafka.cli.settings.model import checked  # noqa: PLC0415 - see there

    return HandlerValue(name, option, checked(option, value, origin, is_text=is_text), origin)


def _taken_apart(value: HandlerValue, handlers: Sequence[Tunable]) -> tuple[str, str]:
    """Return the handler's name and the option that a variable's name is made of."""
    begun = [handler for handler in handlers if value.name.upper().startswith(_written(handler.name) + "_")]
    fitting = [handler for handler in begun if _rest(value, handler) in handler.options]
    longest = _longest(fitting)
    if len(longest) > 1:
        raise several_handlers(longest, value.origin)
    if longest:
        return longest[0].name, _rest(value, longest[0])
    if begun:
        handler = _longest(begun)[0]
        rest = _rest(value, handler)
        raise unknown_option(handler, rest, value.origin)
    if meant := _meant(value, handlers):
        raise ConfigurationError(f"{value.origin}: the app has no handler that this fits{meant}")
    raise unknown_handler(value.name.lower(), handlers, value.origin)


def _longest(handlers: Sequence[Tunable]) -> list[Tunable]:
    length = max((len(handler.name) for handler in handlers), default=0)
    return [handler for handler in handlers if len(handler.name) == length]


def _written(name: str) -> str:
    """Return a handler's name as a variable has it."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _rest(value: HandlerValue, handler: Tunable) -> str:
    return value.name[len(_written(handler.name)) + 1 :].lower()


def _meant(value: HandlerValue, handlers: Iterable[Tunable]) -> str:
    known = [
        f"{VARIABLE}{_written(handler.name)}_{option.upper()}"
        for handler in handlers
        for option in handler.options
    ]
    return did_you_mean(value.origin, known, cutoff=0.85)
