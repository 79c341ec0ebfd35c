"""The app's settings as pydantic sees them: made out of the dataclass, so that no list is kept twice.

`AppVariables` is what pydantic-settings reads variables and files for; `checked` turns one written value
into the setting's type, `checked_option` into that of a handler's option. Called by the other modules of this
folder, on the main thread, and loaded when there is something to check: pydantic-settings costs a run 60 ms
and 7 MiB.
"""

from __future__ import annotations

import collections.abc
from datetime import timedelta
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import BeforeValidator, InstanceOf, TypeAdapter, ValidationError, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from ehkafka import Auto
from ehkafka.app.configuration import shown
from ehkafka.cli.settings.layer import NAMES, PREFIX
from ehkafka.cli.settings.text import duration, reset_choice, start_position, workers
from ehkafka.errors import ConfigurationError
from ehkafka.settings import Settings
from ehkafka.wording import ended


def _types() -> dict[str, Any]:
    """Return each setting's type, read from the dataclass; properties have tables of their own."""
    # Its types for the checker alone are not among its globals.
    hints = get_type_hints(Settings, localns=vars(collections.abc))
    types = {name: _readable(hints[name]) for name in NAMES}
    types["reset"] = Annotated[bool | str, BeforeValidator(reset_choice)]
    types["start"] = Annotated[Any, BeforeValidator(start_position)]
    return types


def _readable(hint: Any) -> Any:
    if timedelta in (hint, *get_args(hint)):
        return Annotated[hint, BeforeValidator(duration)]
    return hint


TYPES = _types()
_ADAPTERS: dict[str, TypeAdapter[Any]] = {name: TypeAdapter(type_) for name, type_ in TYPES.items()}
# Whether `workers` are processes stays the code's; this is their number.
OPTION_TYPES: dict[str, Any] = {
    "workers": Annotated[int | InstanceOf[Auto], BeforeValidator(workers)],
    "start": TYPES["start"],
    "max_age": TYPES["max_age"],
    "deadline_s": float,
    "rate_limit": float,
    "batch_records_max": int,
    "batch_bytes_max": int,
    "wait_s_max": float,
}
_OPTION_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(type_) for name, type_ in OPTION_TYPES.items()
}


class _FromVariables(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True)


_FIELDS: dict[str, Any] = {name: (type_, None) for name, type_ in TYPES.items()}
AppVariables: type[BaseSettings] = create_model("AppVariables", __base__=_FromVariables, **_FIELDS)


def checked(name: str, value: Any, origin: str, *, is_text: bool) -> Any:
    """Return the value in the setting's type; text may stand for numbers and flags.

    Raises `ConfigurationError` naming the origin, the value unless it may be a secret, and what is taken.
    """
    return _validated(_ADAPTERS[name], name, value, origin, is_text=is_text)


def checked_option(name: str, value: Any, origin: str, *, is_text: bool) -> Any:
    """Do the same for an option of a handler."""
    return _validated(_OPTION_ADAPTERS[name], name, value, origin, is_text=is_text)


def _validated(adapter: TypeAdapter[Any], name: str, value: Any, origin: str, *, is_text: bool) -> Any:
    try:
        return adapter.validate_python(value, strict=not is_text)
    except ValidationError as problem:
        # Without its input, which pydantic would repeat unshortened.
        words = problem.errors(include_input=False, include_url=False, include_context=False)[0]["msg"]
    words = words.removeprefix("Value error, ")
    raise ConfigurationError(f"{origin}={shown(name, value)} is refused: {ended(words)}")
