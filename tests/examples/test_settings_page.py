"""The page of settings says what the code does; its tables of the app's settings are written out of it."""

from __future__ import annotations

import inspect
import re

from ehkafka import App, Batch, Endpoint
from ehkafka.app.configuration import ENDPOINT_KEYS
from ehkafka.app.handler_options import OPTIONS
from ehkafka.cli.settings.variables import _MIRROR
from tests.kit.pages import ROOT

PAGE = ROOT / "docs" / "settings.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| `")
]


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
