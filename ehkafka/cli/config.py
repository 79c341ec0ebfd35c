"""`ehkafka config`: finds every value in effect, for an app or for what file and environment say alone.

On the main thread. Starts nothing but what asking an endpoint for its properties starts; shows no secret,
for the values come from `App.configuration`, which has struck them out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ehkafka import App
from ehkafka.app.configuration import shown
from ehkafka.app.effective import Effective
from ehkafka.cli.app_path import load_app

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.cli.settings.given import Given
    from ehkafka.cli.settings.layer import HandlerValue

MISSING = "missing"
# What an app's code has to give, and so stands in for it when there is no app.
_REQUIRED = {
    "group": "the app's code gives it, or EHKAFKA_GROUP",
    "start": "the app's code gives it, or EHKAFKA_START",
    "group.id": "the app's group",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What `config` shows: the values, whose they are, and the file that was read."""

    values: tuple[Effective, ...]
    app: str | None
    file: Path | None


def effective(app: str | None, given: Given) -> Shown:
    """Return every value in effect. Raises `ConfigurationError` for what a start would refuse."""
    if app is not None:
        found = load_app(app)
        given.apply(found)
        with found.endpoint:
            return Shown(found.configuration(), app, given.file)
    stand_in = App(group=MISSING, start="earliest")
    replace(given, layer=replace(given.layer, handlers=[])).apply(stand_in)
    with stand_in.endpoint:
        values = [_marked(value, given) for value in stand_in.configuration()]
    last = {(value.name, value.option): value for value in given.layer.handlers}
    return Shown((*values, *map(_of_a_handler, last.values())), None, given.file)


def _marked(value: Effective, given: Given) -> Effective:
    """Return a value of the stand-in as what it is: nobody's."""
    setting = "group" if value.name == "group.id" else value.name
    if value.name not in _REQUIRED or setting in given.layer.settings:
        return value
    return replace(value, value=None, origin=MISSING, reason=_REQUIRED[value.name])


def _of_a_handler(value: HandlerValue) -> Effective:
    """Return an option of a handler that nobody knows without the app."""
    name = value.name if value.option is None else f"{value.name}.{value.option}"
    hidden = shown(value.option or value.name, value.value) == "***"
    given = value.value if isinstance(value.value, bool | int | float) else f"{value.value}"
    return Effective(
        "handlers",
        name,
        "***" if hidden else given,
        value.origin,
        "of the app's handlers, name the app to see them",
    )
