"""What newcomers get wrong: each mistake ends at the start, in one sentence that says what to do.

A program as they write it, run by the command; nothing of it reaches a broker. `test_bad_input` has what is
wrong with the command's own arguments.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from ehkafka.wording.answers import PAGE

if TYPE_CHECKING:
    from pathlib import Path

KEY = "aHVudGVyMg=="
STRING = f"Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey={KEY}"
HEAD = """
import ehkafka
from ehkafka import *
def make(**settings):
    return ehkafka.App(**{"group": "g", "endpoint": Endpoint.embedded(), "start": "earliest", **settings})
"""
HANDLE = "\ndef handle(record):\n    pass\n"
LATE = "\nasync def handle(record):\n    pass\n"
ON = "app = make()\n@app.handler('orders'{})"


def on(options: str = "", function: str = HANDLE) -> str:
    """Return a program with one handler."""
    return "app = make()\n@app.handler('orders', " + options + ")" + function


# What is wrong, the program, and what its sentence must say.
MISTAKES: list[tuple[str, str, list[str]]] = [
    # The decorator.
    (
        "no parentheses",
        "app = make()\n@app.handler" + HANDLE,
        ["no parentheses", "@app.handler('orders')"],
    ),
    (
        "parentheses too many",
        "app = make()\n@app.on_start()\ndef open_pool():\n    pass",
        ["@app.on_start() has nothing to register", "without parentheses"],
    ),
    (
        "a called function",
        "app = make()\ndef handle(record=None): pass\napp.handler('a')(handle())",
        ["None", "decorate a function"],
    ),
    (
        "no topic",
        "app = make()\n@app.handler()" + HANDLE,
        ["give the topics", "@app.handler('orders')", "EntityPath"],
    ),
    (
        "a list of topics",
        "app = make()\n@app.handler(['a', 'b'])" + HANDLE,
        ["['a', 'b'] is not the name of a topic", "give each topic"],
    ),
    # The handler's arguments.
    ("no argument", on(function="\ndef handle():\n    pass"), ["takes ()", "def handle(record)"]),
    (
        "two arguments",
        on(function="\ndef handle(key, value):\n    pass"),
        ["takes (key, value)", "1 argument, record", "def handle(record)", "on_worker_start"],
    ),
    (
        "a class with needs",
        on(function="\nclass Handle:\n    def __init__(self, db): pass\n    def process(self, record): pass"),
        ["takes (db)", "open(partition)"],
    ),
    (
        "a middleware's arguments",
        "app = make()\n@app.use\ndef log(record):\n    pass",
        ["takes (record)", "def log(record, call_next)"],
    ),
    (
        "a batch handler's arguments",
        "app = make()\n@app.batch_handler('a')\ndef store(): pass",
        ["def store(batch)"],
    ),
    # Names.
    ("a misspelt option", on("on_failur=Skip()"), ["'on_failur'", "did you mean on_failure=…?"]),
    ("another library's option", on("max_workers=4"), ["did you mean workers=…?"]),
    (
        "a handler's option for the app",
        "app = make(workers=4)",
        ["workers", "@app.handler('orders', workers=…)"],
    ),
    (
        "no group",
        "app = App(endpoint=Endpoint.embedded(), start='earliest')",
        ["needs 'group'", "App(group=…)"],
    ),
    ("a group without its name", "app = App('g')", ["by name", "App(group=…)"]),
    # Types and values.
    ("no attempt", on("retry=Retry(attempts=0)"), ["attempts=0", "1 or more"]),
    ("a negative delay", on("retry=Retry(first_s=-1)"), ["first_s=-1", "0 to"]),
    (
        "letters to the handler itself",
        on("on_failure=DeadLetter('orders')"),
        ["one of its own topics", "another topic"],
    ),
    (
        "letters to nowhere",
        on("on_failure=DeadLetter('')"),
        ["DeadLetter(to='')", "name of the dead-letter topic"],
    ),
    (
        "a start without time zone",
        "import datetime\napp = make(start=datetime.datetime(2026, 1, 1))",
        ["time zone"],
    ),
    # Functions that are asked something.
    ("an order of two", on("order_by=lambda topic, key: key"), ["takes (topic, key)", "1 argument, record"]),
    (
        "an on_start that takes a record",
        LATE + "app = make()\napp.on_start(handle)",
        ["on_start", "no arguments", "async def handle()"],
    ),
    ("async in processes", on("workers=Processes(2)", LATE), ["async def", "on_worker_start", "workers=16"]),
    (
        "a lambda in processes",
        "app = make()\napp.handler('a', workers=Processes(2))(lambda record: None)",
        ["a lambda", "top level of a module"],
    ),
    # The endpoint, and secrets.
    (
        "an endpoint by its class",
        "app = make(endpoint=Endpoint('localhost:9092'))",
        ["Endpoint.kafka('host:9092')"],
    ),
    (
        "an address with a scheme",
        "app = make(endpoint=Endpoint.kafka('http://localhost:9092'))",
        ["host:port"],
    ),
    (
        "a connection string as address",
        f"app = make(endpoint=Endpoint.kafka('{STRING}'))",
        ["Endpoint.connection_string(…)"],
    ),
    ("a connection string as group", f"app = make(group='{STRING}')", ["looks like a connection string"]),
    ("a connection string as start", f"app = make(start='{STRING}')", ["looks like a connection string"]),
    (
        "a connection string as topic",
        f"app = make()\n@app.handler('{STRING}')" + HANDLE,
        ["a connection string"],
    ),
    (
        "a connection string without its hub",
        f"app = make(endpoint=Endpoint.connection_string('{STRING}'))\n@app.handler()" + HANDLE,
        ["EntityPath", "@app.handler('orders')"],
    ),
    ("a mirror as text", "app = make(mirror='https://a.blob.core.windows.net/c')", ["BlobMirror(…)"]),
    # The module.
    ("an app of another name", "shop = make()", ["has no 'app'", "the module's apps are shop"]),
    ("a run at import", on() + "\napp.run()", ["if __name__ == '__main__'"]),
]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, *arguments: str) -> Any:
    """Run a program by the command, in its folder."""
    name = f"shop_{abs(hash(str(folder)))}"
    (folder / f"{name}.py").write_text(dedent(HEAD) + dedent(source))
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    return CliRunner().invoke(cli, ["run", name, *arguments], env={"COLUMNS": "400", "NO_COLOR": "1"})


def assert_one_sentence(stderr: str, parts: list[str]) -> None:
    """One line of ours, one sentence in it, no key."""
    lines = stderr.strip().splitlines()
    assert len(lines) == 1, stderr
    text = lines[0].removeprefix("ehkafka: ").partition(f" See {PAGE}#")[0]
    assert lines[0].startswith(f"ehkafka: {text}"), stderr
    assert [part for part in parts if part not in text] == [], text
    assert not re.search(r"[.?!][\"')]* +[A-Z@]", text), f"more than one sentence: {text}"
    assert re.search(r"[.?)]$", text), text
    assert KEY[:8] not in stderr


@pytest.mark.parametrize(("source", "parts"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_ends_at_the_start_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, parts: list[str]
) -> None:
    """Exit code 2, one sentence on one line, which says what to write instead; nothing was consumed."""
    ended = run(tmp_path, monkeypatch, source)
    assert_one_sentence(ended.stderr, parts)
    assert ended.exit_code == ehkafka.errors.ConfigurationError.exit_code
    assert ended.stdout == ""
