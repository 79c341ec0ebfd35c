"""Reads a written value of a setting, or of an option of handlers, in the type that is declared for it.

`AppVariables` is what pydantic-settings reads variables for; `checked` turns one written value into its type.
Called by the other modules of this folder, on the main thread, and loaded when there is something to check:
pydantic-settings costs a run 60 ms and 7 MiB.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import BeforeValidator, InstanceOf, TypeAdapter, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from ehkafka import Auto
from ehkafka.app.configuration import shown
from ehkafka.app.handler_options import OPTIONS
from ehkafka.cli.settings.layer import NAMES, PREFIX
from ehkafka.cli.settings.text import duration, reset_choice, start_position, workers
from ehkafka.errors import ConfigurationError
from ehkafka.settings import Settings, options_of
from ehkafka.wording import ended

# How text stands for what no number or word does. Whether `workers` are processes stays the code's; this is
# their number.
_READ = {
    "reset": Annotated[bool | str, BeforeValidator(reset_choice)],
    "start": Annotated[Any, BeforeValidator(start_position)],
    "workers": Annotated[int | InstanceOf[Auto], BeforeValidator(workers)],
}


def _types() -> dict[str, Any]:
    written = {one.name: one.type for one in (*OPTIONS.values(), *options_of(Settings))}
    declared = {name: type_ for name, type_ in written.items() if name in {*OPTIONS, *NAMES} - {*_READ}}
    names = vars(sys.modules[Settings.__module__])
    hints = get_type_hints(SimpleNamespace(__annotations__=declared), globalns=names)
    return {**{name: _readable(hint) for name, hint in hints.items()}, **_READ}


def _readable(hint: object) -> object:
    if timedelta in (hint, *get_args(hint)):
        return Annotated[hint, BeforeValidator(duration)]
    return hint


_ADAPTERS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(type_) for name, type_ in _types().items()}


class _FromVariables(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True)


_FIELDS: dict[str, Any] = dict.fromkeys(NAMES, (Any, None))
AppVariables: type[BaseSettings] = create_model("AppVariables", __base__=_FromVariables, **_FIELDS)


def checked(name: str, value: object, origin: str, *, is_text: bool) -> Any:
    """Return the value in the setting's or the option's type; text may stand for numbers and flags.

    Raises `ConfigurationError` naming the origin, the value unless it may be a secret, and what is taken.
    """
    try:
        return _ADAPTERS[name].validate_python(value, strict=not is_text)
    except ValidationError as problem:
        # Without its input, which pydantic would repeat unshortened.
        words = problem.errors(include_input=False, include_url=False, include_context=False)[0]["msg"]
    words = words.removeprefix("Value error, ")
    raise ConfigurationError(f"{origin}={shown(name, value)} is refused: {ended(words)}")
