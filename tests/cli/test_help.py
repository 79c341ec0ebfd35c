"""What the help texts show does what they say: each example is run, and the file is given to the command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from ehkafka.cli.exits import CODES
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.recovery.letters.letter import Header

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result

ROOT: Any = typer.main.get_command(cli)
HUB = "Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=azE="
# These go on until Ctrl-C, take minutes, or need Azure, Spark, Kafka or a running app: the command's own
# parser reads them.
ENDLESS = (
    "--watch",
    "--engine spark",
    "--members",
    "--reload",
    "ehkafka top",
    "ehkafka keys",
    "ehkafka groups",
    "https://",
    "tail orders --app",
    "tail orders --json",
    "tail orders --end",
)
APP = """
import ehkafka
app = ehkafka.App(group="shop", endpoint=ehkafka.Endpoint.kafka("{address}"), start="earliest")
@app.handler("{topic}")
def handle(record): pass
app.on_start(app.stop)
"""


def helps(command: Any = ROOT, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each command's name and help."""
    yield name.strip(), command.help or ""
    for word, one in getattr(command, "commands", {}).items():
        yield from helps(one, f"{name} {word}")


def examples() -> Iterator[str]:
    """Yield each example: a line up to its explanation, its pipe, or the file that it reads."""
    for _, text in helps():
        for line in text.splitlines():
            if line.startswith("  ehkafka "):
                yield re.split(r" {2,}| \| | < ", line.strip())[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedBroker, Path]]:
    """Make a broker and a folder in which there is what the examples name."""
    folder = tmp_path_factory.mktemp("place")
    topics = {"orders": 4, "readings": 4, "readings.dead": 1, "readings.retry": 4}
    with EmbeddedBroker(topics) as broker, pytest.MonkeyPatch.context() as patch:
        for partition in range(4):
            for topic in ("orders", "readings"):
                broker.produce(topic, [(b"home-7", b"{}")] * 1_300, partition=partition)
        headers = [(Header.ORIGIN_TOPIC, b"readings"), (Header.ORIGIN_PARTITION, b"3")]
        broker.produce("readings.dead", [(b"home-7", b"{}")], partition=0, headers=headers)
        (folder / "shop").mkdir()
        # A package in earnest: another test's shop.py may still be on the path, and would go before a folder.
        (folder / "shop" / "__init__.py").touch()
        (folder / "examples" / "hello").mkdir(parents=True)
        for file, topic in (
            ("shop/orders.py", "orders"),
            ("shop/readings.py", "readings"),
            ("examples/hello/app.py", "orders"),
        ):
            (folder / file).write_text(APP.format(address=broker.bootstrap, topic=topic))
        (folder / "prod.toml").write_text("[app]\nstop_s = 5\n")
        patch.chdir(folder)
        patch.setenv("EHKAFKA_BOOTSTRAP", broker.bootstrap)
        moved = (
            "offsets",
            "reset",
            "readings",
            "--group",
            "shop",
            "--to",
            "100",
            "--yes",
            "--watch-for",
            "0",
        )
        assert run(*moved).exit_code == 0
        for name in ("copied", "checkpoints"):
            written = run("offsets", "export", "readings", "--group", "shop", "--to", f"./{name}", "--yes")
            assert written.exit_code == 0, written.stderr
        yield broker, folder


def run(*arguments: str) -> Result:
    """Run the command here."""
    return CliRunner().invoke(cli, arguments, prog_name="ehkafka")


@pytest.mark.parametrize("example", sorted(set(examples())))
def test_an_example_runs(
    example: str, place: tuple[EmbeddedBroker, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the broker in this process for the one that is named, it ends well; an endless one is read."""
    broker, folder = place
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", broker.bootstrap)
    for name in [name for name in sys.modules if name.split(".")[0] in {"shop", "app"}]:
        monkeypatch.delitem(sys.modules, name)
    if " export " in example:
        example = example.replace("./copied", "./exported")  # others are read from there
    words = shlex.split(example.replace("localhost:9092", broker.bootstrap).replace("3@1207", "0@0"))[1:]
    if any(mark in example for mark in ENDLESS):
        assert_read(words)
        return
    if "--yes" in words and words[1] in {"reset", "import", "skip"}:
        words += ["--watch-for", "0"]
    ended = run(*words)
    assert ended.exit_code == 0, ended.stderr


def assert_read(words: list[str]) -> None:
    """The command's own parser takes the line."""
    command, context = ROOT, None
    while hasattr(command, "commands"):
        command, context = command.commands[words.pop(0)], command.make_context("ehkafka", ["x"])
    assert command.make_context("ehkafka", words, parent=context).params


def test_the_file_of_the_help_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config --help` shows a file as it is: all its tables, and the command reads it."""
    shown = run("config", "--help").stdout
    text = re.search(r"A file:\n(.*?)\n\n", shown, re.DOTALL)
    assert text is not None
    assert [line.split()[0] for line in text[1].splitlines() if "[" in line] == [
        *("[app]", "[endpoint]", "[endpoint.properties]", "[consumer]", "[producer]")
    ]
    monkeypatch.delenv("EHKAFKA_BOOTSTRAP", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hub").write_text(HUB)
    (tmp_path / "own.toml").write_text(text[1].replace("/mnt/secrets/hub", str(tmp_path / "hub")))
    ended = run("config", "--config", "own.toml")
    assert ended.exit_code == 0, ended.stderr
    found = {line.split()[0]: line.split()[1] for line in ended.stdout.splitlines()}
    assert found["app.drain_s"] == "20.0"
    assert found["consumer.fetch.max.bytes"] == "10000000"


def test_the_variables_of_the_help_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say the same as the file."""
    text = dict(helps())["config"]
    monkeypatch.delenv("EHKAFKA_BOOTSTRAP", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hub").write_text(HUB)
    for name, value in re.findall(r"(EHKAFKA_\w+)=(\S+)", text):
        monkeypatch.setenv(name, value.replace("/mnt/secrets/hub", str(tmp_path / "hub")))
    ended = run("config", "--json")
    assert ended.exit_code == 0, ended.stderr
    assert '"EHKAFKA_DRAIN_S"' in ended.stdout


def test_nothing_of_a_help_is_lost_or_torn() -> None:
    """Each word and line of the text that is written is shown; brackets are no markup."""
    for name, text in helps():
        shown = run(*name.split(), "--help").stdout
        assert set(text.replace("\b", "").split()) - set(shown.split()) == set(), name
        lines = [line for line in text.splitlines() if line.startswith("  ")]
        assert [line for line in lines if line.strip() not in shown] == [], name


def test_exit_codes_stand_once() -> None:
    """Under `ehkafka --help`: all that an error of ours can have, and in no other help."""
    assert [name for name, _ in helps() if "xit codes" in run(*name.split(), "--help").stdout] == [""]
    shown = run("--help").stdout
    errors = [error for error in vars(ehkafka.errors).values() if isinstance(error, type)]
    codes = {error.exit_code for error in errors if issubclass(error, ehkafka.EhkafkaError)}
    assert codes <= {int(line.split()[0]) for line in CODES.splitlines()}
    assert all(line in shown for line in CODES.splitlines())


def test_python_m_ehkafka_is_the_command() -> None:
    """As `python -m pip` and its like."""
    command = [sys.executable, "-m", "ehkafka", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"ehkafka {ehkafka.__version__}\n"), ended.stderr
