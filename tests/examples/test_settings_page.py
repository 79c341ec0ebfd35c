"""The page of settings says what the code does: each setting, its default, its words, its meaning."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, get_args, get_type_hints

import ehkafka.settings.settings as module
from ehkafka import App, Batch, Endpoint
from ehkafka.app.configuration import ENDPOINT_KEYS
from ehkafka.app.handler_options import OPTIONS
from ehkafka.cli.settings.variables import _MIRROR
from ehkafka.settings import MEANINGS, PROPERTIES, Settings
from tests.kit.pages import ROOT

PAGE = ROOT / "docs" / "settings.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| `")
]
OF_THE_APP = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 3}
# librdkafka's properties; the page has a section of a file for them.
FIELDS = [field for field in dataclasses.fields(Settings) if field.name not in PROPERTIES]


def test_each_setting_is_there_once() -> None:
    """None is missing, none is made up, none stands twice."""
    names = [row[0].strip("`") for row in ROWS if len(row) == 3]
    assert sorted(names) == sorted(field.name for field in FIELDS)


def test_each_default_is_the_codes_own() -> None:
    """A choice lists all its words, the default first; no value is a dash."""
    hints: dict[str, Any] = get_type_hints(Settings)
    shown = {field.name: default_of(field, hints[field.name]) for field in FIELDS}
    assert {name: OF_THE_APP[name][0] for name in shown} == shown


def default_of(field: dataclasses.Field[Any], hint: Any) -> str:
    """Return the default as the page has to show it."""
    default = field.default
    words = get_args(module.Drain if field.name == "drain" else hint)
    if isinstance(default, str) and default in words:
        return ", ".join(f'`"{word}"`' for word in (default, *(word for word in words if word != default)))
    if default is dataclasses.MISSING:
        return "required"
    if default is None:
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:.0f}`"


def test_each_meaning_is_what_the_command_shows() -> None:
    """`ehkafka config` and the page say the same."""
    assert {name: row[-1] for name, row in OF_THE_APP.items()} == {
        field.name: MEANINGS[field.name] for field in FIELDS
    }


def test_the_ways_to_the_broker_and_the_mirrors_variables_are_all_there() -> None:
    """In their own tables, which have two columns."""
    others = {row[0].strip("`") for row in ROWS if len(row) == 2}
    assert others == {*ENDPOINT_KEYS, *_MIRROR}
    assert re.search(r"Exactly one of the first four", PAGE.read_text())


def test_the_options_of_one_handler_are_the_decorators_own() -> None:
    """Each with the handlers that have it, its default and what the command shows."""
    shown = {row[0].strip("`"): row[1:] for row in ROWS if len(row) == 4}
    assert {name: row[-1] for name, row in shown.items()} == dict(OPTIONS)
    app = App(group="g", endpoint=Endpoint.kafka("code:1"), start="earliest")
    app.handler("one")(lambda record: None)

    @app.batch_handler("two")
    def store(batch: Batch) -> None: ...

    record, batch = app.tunable_handlers
    of_both = dict.fromkeys({*record.options} & {*batch.options}, "all")
    of_one = dict.fromkeys(record.options, "records") | dict.fromkeys(batch.options, "batches")
    assert {name: row[0] for name, row in shown.items()} == of_one | of_both
    defaults = {name: one.default for name, one in inspect.signature(App.handler).parameters.items()}
    batches = {name: one.default for name, one in inspect.signature(App.batch_handler).parameters.items()}
    for name, row in shown.items():
        default = defaults.get(name) if row[0] != "batches" else batches[name]
        text = "–" if default is None else f"`{default}`"
        assert row[1] == (f"{text}, batches `{batches[name]}`" if name == "workers" else text), name
