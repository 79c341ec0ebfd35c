"""What a module or a path can be instead of an app: one message with a next step, and the right exit code."""

from __future__ import annotations

import socket
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ehkafka.cli.commands import cli
from ehkafka.cli.exits import say
from tests.cli.test_common_mistakes import HANDLE, HEAD, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HANDLER = "\n@app.handler('t')" + HANDLE
# What the module is; the exit code; what the message must have: what happened, and what to do next.
MODULES = {
    "a port without a server": (
        "app = make(endpoint=ehkafka.Endpoint.kafka('127.0.0.1:{free_port}'), connect_s=1)" + HANDLER,
        3,
        ["could not be reached", "Check the address", "#the-broker-cannot-be-reached."],
    ),
    "a missing import": ("import no_such_thing", 2, ["'no_such_thing'", "not installed", "{name}.py:{line}"]),
    "an error at import": ("app = {}['x']", 2, ["KeyError", "{name}.py:{line}", "--debug"]),
    "a syntax error": ("def broken(:\n    pass", 2, ["{name}.py, line {line}", "invalid syntax"]),
    "an exit at import": ("raise SystemExit(0)", 2, ["ended the process", "__main__"]),
    "a run on Spark at import": (
        "app = make()" + HANDLER + "app.run_on_spark(None)",
        2,
        ["{name} starts its app while the command imports it", "if __name__ == '__main__'", "{name}.py:"],
    ),
    "an app factory": (
        "def app(): return make()",
        2,
        ["not an ehkafka.App but a function", "assign the function's result to a name"],
    ),
    "something else": ("app = 42", 2, ["not an ehkafka.App but a int"]),
}
# What is named instead of a module that is there.
PATHS = {
    "a module that is not there": ("no_such_module:app", ["no module 'no_such_module'", "module:app"]),
    "a package that is not there": ("no_such.module:app", ["no module 'no_such'", "module:app"]),
    "a file that is not there": ("no/such/file.py", ["no file no/such/file.py", "path/to/file.py:app"]),
    "no module": (":app", ["names no module", "module:app"]),
    "a file that hides behind another": ("json.py", ["another module is also named 'json'", "Rename"]),
    "a file without a module's name": ("my-app.py", ["not a module name", "Rename"]),
}


@pytest.fixture
def free_port() -> Iterator[int]:
    """Return a port that is bound and on which no server listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


def assert_explained(ended: Any, code: int, parts: list[str]) -> None:
    """One message of ours with all parts, the exit code, no traceback."""
    messages = [line for line in ended.stderr.splitlines() if line.startswith("ehkafka: ")]
    assert len(messages) == 1, ended.stderr
    assert [part for part in parts if part not in messages[0]] == [], messages[0]
    assert ended.exit_code == code, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("case", MODULES)
def test_a_wrong_module_is_explained(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """What is wrong in the user's module is in one message that leads on."""
    source, code, parts = MODULES[case]
    ended = run(tmp_path, monkeypatch, source.replace("{free_port}", str(free_port)))
    [name] = [path.stem for path in tmp_path.glob("*.py")]
    line = str(dedent(HEAD).count("\n") + 1)
    assert_explained(ended, code, [part.replace("{name}", name).replace("{line}", line) for part in parts])


@pytest.mark.parametrize("case", PATHS)
def test_a_wrong_path_is_explained(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that leads to no app is explained with the forms that would."""
    path, parts = PATHS[case]
    for name in ("json.py", "my-app.py"):
        (tmp_path / name).write_text("app = None")
    monkeypatch.chdir(tmp_path)
    assert_explained(CliRunner().invoke(cli, ["run", path]), 2, parts)


def test_an_unknown_topic_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the topics that are there: the name is mostly misspelt."""
    source = """
        other = ehkafka.Endpoint.embedded({"readings": 1})
        address = other.client_properties()["bootstrap.servers"]
        app = make(endpoint=ehkafka.Endpoint.kafka(address))
        @app.handler("reading")
        def handle(record): pass
    """
    ended = run(tmp_path, monkeypatch, source)
    assert_explained(ended, 3, ["no topic 'reading'", "on the broker: readings", "Create the topic, or"])


def test_debug_adds_the_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same mistake with --debug shows where it came from, and the message still."""
    ended = run(tmp_path, monkeypatch, "app = make(start=None)", "--debug")
    assert ended.exit_code == 2
    assert "Traceback" in ended.stderr
    assert "ehkafka: start is missing" in ended.stderr


@pytest.mark.parametrize("missing", ["typer", "rich", "pydantic_settings"])
def test_without_the_extra_one_line_says_what_to_install(missing: str) -> None:
    """The command of a bare installation names the extra."""
    code = f"import sys; sys.modules[{missing!r}] = None; from ehkafka.cli.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "pip install 'pydantic-settings<" in ended.stderr


def test_a_broken_installation_is_not_called_a_missing_extra() -> None:
    """Another missing module shows as it is: installing the extra would not help."""
    missing = "ehkafka.cli.exits"
    code = f"import sys; sys.modules[{missing!r}] = None; from ehkafka.cli.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert missing in ended.stderr
    assert "pip install" not in ended.stderr


def test_an_error_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker's own words, a topic's name among them, may be in it; the lines of a message stay lines."""
    say("first \x1b]0;owned\x07\nsecond\r\x9b2J")
    assert capsys.readouterr().err == "ehkafka: first \\x1b]0;owned\\x07\nsecond\\r\\x9b2J\n"
