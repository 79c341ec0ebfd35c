"""Options of handlers from outside: `[handlers.readings]`, `EHKAFKA_HANDLER_READINGS_WORKERS`, `--set`.

They are read before the app is imported and its handlers are known: a variable's name is taken apart by
`resolved`, which gets these. A file's and a flag's values are checked as they are read, a variable's then.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ehkafka.app.handler_options import key_of, several_handlers, unknown_handler, unknown_option
from ehkafka.cli.settings.layer import PREFIX
from ehkafka.cli.settings.model import checked
from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.app.handler_options import Tunable
    from ehkafka.cli.settings.layer import HandlerValue

VARIABLE: Final = f"{PREFIX}HANDLER_"
"""What the variables of handlers begin with."""


def resolved(
    values: Iterable[HandlerValue], handlers: Sequence[Tunable]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return what is laid over an app's handlers, a later value over an earlier one, and the origins.

    Raises `ConfigurationError` for a variable that fits no handler, or more than one.
    """
    options: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for name, option, value, origin in values:
        if option is None:
            name, option = _taken_apart(name, origin, handlers)  # noqa: PLW2901 - of a variable
            value = checked(option, value, origin, is_text=True)  # noqa: PLW2901 - likewise
        options.setdefault(name, {})[option] = value
        origins[key_of(name, option)] = origin
    return options, origins


def _taken_apart(variable: str, origin: str, handlers: Sequence[Tunable]) -> tuple[str, str]:
    """Return the handler's name and the option that a variable's name is made of."""
    begun = [handler for handler in handlers if variable.upper().startswith(_written(handler.name) + "_")]
    fitting = [handler for handler in begun if _rest(variable, handler) in handler.options]
    longest = _longest(fitting)
    if len(longest) > 1:
        raise several_handlers(longest, origin)
    if longest:
        return longest[0].name, _rest(variable, longest[0])
    if begun:
        handler = _longest(begun)[0]
        raise unknown_option(handler, _rest(variable, handler), origin)
    if meant := _meant(origin, handlers):
        raise ConfigurationError(f"{origin}: the app has no handler with this name{meant}")
    raise unknown_handler(variable.lower(), handlers, origin)


def _longest(handlers: Sequence[Tunable]) -> list[Tunable]:
    length = max((len(handler.name) for handler in handlers), default=0)
    return [handler for handler in handlers if len(handler.name) == length]


def _written(name: str) -> str:
    """Return a handler's name as a variable has it."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _rest(variable: str, handler: Tunable) -> str:
    return variable[len(_written(handler.name)) + 1 :].lower()


def _meant(origin: str, handlers: Iterable[Tunable]) -> str:
    known = [
        f"{VARIABLE}{_written(handler.name)}_{option.upper()}"
        for handler in handlers
        for option in handler.options
    ]
    return did_you_mean(origin, known, cutoff=0.85)
