"""What a command line may hold, however hostile: one line on stderr, exit code 2, and no broker was asked.

The commands are found in the command line's own tree: a new one without a good line of its own fails here.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import typer
from typer.testing import CliRunner

from ehkafka.cli.command_line import TEXT_BYTES_MAX
from ehkafka.cli.commands import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "c2VjcmV0a2V5Zm9ybm9ib2R5"
STRING = f"Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey={SECRET}"
# A line of each command that its parser takes; hostile things are added to it or replace its parts.
GOOD: dict[str, list[str]] = {
    "run": ["shop:app"],
    "check": ["--endpoint", "127.0.0.1:1"],
    "config": [],
    "topics": ["--endpoint", "127.0.0.1:1"],
    "groups": ["--endpoint", "127.0.0.1:1"],
    "produce": ["t", "v", "--endpoint", "127.0.0.1:1"],
    "tail": ["t", "--endpoint", "127.0.0.1:1"],
    "lag": ["t", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "owners": ["t", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "top": ["http://127.0.0.1:1"],
    "keys list": ["--url", "http://127.0.0.1:1"],
    "keys pause": ["t/0@0", "--url", "http://127.0.0.1:1"],
    "keys resume": ["t/0@0", "--url", "http://127.0.0.1:1"],
    "keys retry": ["t/0@0", "--url", "http://127.0.0.1:1"],
    "keys skip": ["t/0@0", "--url", "http://127.0.0.1:1"],
    "keys dead-letter": ["t/0@0", "--url", "http://127.0.0.1:1"],
    "dlq list": ["t", "--endpoint", "127.0.0.1:1"],
    "dlq show": ["t", "0@0", "--endpoint", "127.0.0.1:1"],
    "dlq redrive": ["t", "--endpoint", "127.0.0.1:1"],
    "offsets reset": ["t", "--to", "earliest", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "offsets skip": ["t/0@0", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "offsets import": ["t", "--from", ".", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "export": ["t", "--from", "earliest", "--to", "new.parquet", "--endpoint", "127.0.0.1:1"],
    "offsets export": ["t", "--to", "./new", "--group", "g", "--endpoint", "127.0.0.1:1"],
    "offsets diff": ["t", "--from", ".", "--group", "g", "--endpoint", "127.0.0.1:1"],
}
# What a record may be is any text.
ANY_TEXT = {"key", "values"}
NO_UTF8 = "caf\udce9"
TEXTS = ["", " ", "\t\n", "a\0b", "x" * (TEXT_BYTES_MAX + 1), "x" * 100_000, NO_UTF8]
NUMBERS = ["x", "", "nan", "inf", "-inf", "-1", "1e999", "9" * 5_000, "1;2", "[red]1[/]", "\x1b[31m1", "0x10"]
# A SAS or a key, in whatever form it was pasted, is refused where a container or a folder is to be named.
SECRET_PLACES = [
    *(f"https://h/c?sig={SECRET}", f"https://u:{SECRET}@h/c", f"me.blob.core.windows.net/c?sig={SECRET}"),
    *(f"HTTPS://h/c?sig={SECRET}", f"sv=1&sig={SECRET}{'x' * 300}", f"AccountName=me;AccountKey={SECRET}"),
    f"BlobEndpoint=https://me.blob.core.windows.net;SharedAccessSignature=sv=1&sig={SECRET}",
]
PLACES = ["no/such/place", "no-such", "a\nb", *SECRET_PLACES]
# What one option alone makes wrong.
VALUES: dict[str, list[str]] = {
    "topic": [
        *(
            "\x1b]0;owned\x07",
            "two\nlines",
            "[red]t[/]",
            "\N{PILE OF POO}",
            "../etc",
            "a b",
            "t" * 257,
            NO_UTF8,
        ),
        f"t;SharedAccessKey={SECRET}",
        f"https://u:{SECRET}@h/t",
    ],
    "endpoint": [
        *(STRING, f"u:{SECRET}@h:9092", f"https://u:{SECRET}@h:1", "h:99999", "h:", ":9092", "h:1,,h:2"),
        *("\x1b[31mh:1", "[red]:1", "h:1\nh:2", "\N{PILE OF POO}:1", "h h:1", NO_UTF8),
    ],
    "url": [
        *("ftp://h", "http://", "http://h:99999", "http://h/?x=1", "http://h/#x", "http://h h", "http://h\n"),
        *(f"http://u:{SECRET}@h", f"https://h/?token={SECRET}", "[red]://h", "http://" + "x" * 64),
        *("http://[::1", "http://a/\x1b[2J", "http://a/\r\nhost: b", "http://" + "ä" * 300),
    ],
    "where": [
        *("ftp://h", "http://", "http://h:99999", "http://h/?x=1", "http://h h", f"http://u:{SECRET}@h"),
        *(f"https://h/?token={SECRET}", "[red]://h", ":", "::", "a:b:c", ".py", "\x1b[31m:app", "[red]:app"),
        *("no/such/file.py", "no_such:app", f"u:{SECRET}", f"u:{SECRET}@h", "a\nb:c", "x" * 5_000 + ":app"),
    ],
    "app": [
        *("no_such_module", "..", ":", "::", "a:b:c", "/", ".py", "\x1b[31m:app", "[red]:app", "a\nb", "a b"),
        *("no/such/file.py", "\N{PILE OF POO}", f"https://u:{SECRET}@h", STRING, NO_UTF8, "x" * 5_000),
    ],
    "config": [
        "no/such.toml",
        ".",
        "broken.toml",
        "/proc/self/mem",
        "[red].toml",
        "a\nb",
        STRING,
        "x" * 5_000,
    ],
    "assignments": [
        *(
            "x",
            "=1",
            "drain_s",
            "drain_s=",
            "drain_s=nan",
            "drain_s=-1",
            "drain_s=1e999",
            "no_such=1",
            "drains_s=1",
        ),
        *(
            f"consumer.sasl.password={SECRET}",
            f"{STRING}=1",
            "start=soon",
            "max_age=7",
            "[red]=1",
            "\x1b[2J=1",
        ),
    ],
    "begin": [
        "soon",
        "1.5",
        "-5x",
        "1e3",
        "10m",
        "\N{ARABIC-INDIC DIGIT THREE}",
        "-",
        "--",
        "9" * 30,
        "2026-13-01",
        "[red]",
        "\x1b[2J",
        "-99999999999999999999d",
    ],
    "since": ["soon", "earliest", "17", "-5", "2026-13-01", "\x1b[2J", "-99999999999999999999d"],
    "until": ["soon", "-5", "1=", "1.5", "-", "9" * 30, "[red]", "\x1b[2J"],
    "place": ["3", "@", "3@", "@7", "-1@7", "3@-7", "3@7@9", "x@y", "3@1.5", "[red]3@7", "9" * 30 + "@1"],
    "partition": ["3000000000"],
    "form": ["SDK", "parquet", "[red]", "\x1b[2J", "two\nlines"],
    "source": PLACES,
    "mirror": PLACES,
    "spark_conf": ["x", "=", "no.spark=1", "spark.x", "\x1b[2J=1"],
    "log_level": ["loud", "[red]", "\x1b[2J"],
    "engine": ["flink", "[red]", "\x1b[2J"],
}
# Of `offsets reset` and `offsets export`, which have one name for two things.
OF_COMMANDS: dict[str, list[list[str]]] = {
    "run": [
        ["--checkpoint", "c"],
        ["--engine", "spark", "--new-checkpoint"],
        ["--engine", "spark", "--available-now", "--batch-interval", "1", "--checkpoint", "c"],
        ["--reset", ""],
        ["--reload", "--members", "2"],
        ["--settle-for", "5"],
        ["--until-caught-up", "--settle-for", "0"],
        ["--until-caught-up", "--engine", "spark"],
    ],
    "check": [["--app", "x"], ["--mirror", "https://h/c", "--credential", SECRET]],
    "tail": [["--app", "shop:app"], ["--count", "0"], ["--from", "1", "--from", "x"]],
    "lag": [["--app", "shop:app"], ["--fail-over", "1.5"], ["--every", "0"]],
    "owners": [["--app", "shop:app"]],
    "dlq redrive": [["--yes", "--dry-run"], ["--dry-run", "--yes"], ["--to", "a b"]],
    "offsets reset": [
        *(
            ["--to", place]
            for place in ("soon", "1=", "=1", "1=soon", "latest", "-1=5", "x=1", "1=1.5", "9" * 30)
        ),
        *(["--dry-run", "--yes"], ["--partition", "0", "--to", "1=5"], ["--to", "1=5", "--to", "1=6"]),
    ],
    "offsets import": [["--yes", "--dry-run"], ["--from", "https://h/c", "--credential", SECRET]],
    "export": [
        *(["--to", place] for place in SECRET_PLACES),
        *(["--to", "out.csv"], ["--to", "no/such/out.parquet"], ["--to", "broken.toml", "--format", "arrow"]),
        *(["--by", "year"], ["--on-loss", "skip"], ["--format", "csv"], ["--from", "0=1"]),
    ],
    "offsets export": [["--yes", "--dry-run"], *(["--to", place] for place in SECRET_PLACES)],
}


def commands(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command of the tree that does something."""
    for word, command in tree.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name}{word} ")
        else:
            yield name + word, command


ROOT: Any = typer.main.get_command(cli)
TREE = dict(commands(ROOT))


def hostile_lines(name: str, command: Any) -> Iterator[list[str]]:
    """Yield lines that are wrong by themselves, made out of what the command takes."""
    words, good = name.split(), GOOD[name]
    yield [*words, *good, "--no-such-option"]
    yield [*words, *good, f"--{STRING}"]
    yield [*words, *good, f"-{STRING}"]
    yield [*words, *good, "--debug=yes"]
    yield [
        *words,
        "--",
        "--help",
        *good,
        "\x1b[31mmore",
        f"https://u:{SECRET}@h",
        "[red]",
        "x" * 100_000,
        NO_UTF8,
    ]
    yield from ([*words, *good, *more] for more in OF_COMMANDS.get(name, []))
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    for parameter in command.params:
        if parameter in arguments:
            place = arguments.index(parameter)
            values = (value for value in _values(parameter) if not value.startswith("-"))
            yield from ([*words, *_in_place(good, place, value)] for value in values)
        elif not parameter.is_flag:
            yield [*words, *good, parameter.opts[0]]
            yield [*words, *good, parameter.opts[0], "--debug"]
            yield from ([*words, *good, f"{parameter.opts[0]}={value}"] for value in _values(parameter))


def _in_place(good: list[str], place: int, value: str) -> list[str]:
    """Put the value where that argument is; an app's name may be left out."""
    is_there = place < len(good) and not good[place].startswith("-")
    return [*good[:place], value, *good[place + is_there :]]


def _values(parameter: Any) -> Iterator[str]:
    yield from VALUES.get(parameter.name, [])
    kind = parameter.type_descriptor.annotation
    if any(number in str(kind) for number in ("int", "float")):
        yield from NUMBERS
    elif "str" in str(kind) and parameter.name not in ANY_TEXT:
        yield from TEXTS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return who was asked: what would connect, or start to run, fails and is noted here."""
    found: list[str] = []

    def refuse(what: str) -> Any:
        def fail(*_given: Any, **_named: Any) -> NoReturn:
            found.append(what)
            raise AssertionError(f"{what} was called")

        return fail

    for client in ("Consumer", "Producer", "AdminClient"):
        monkeypatch.setattr(f"ehkafka.endpoint.client.{client}", refuse(client))
    monkeypatch.setattr(socket.socket, "connect", refuse("connect"))
    monkeypatch.setattr(socket, "getaddrinfo", refuse("getaddrinfo"))
    monkeypatch.setattr("ehkafka.App.run", refuse("App.run"))
    monkeypatch.setattr("typer.testing._get_command", lambda _typer: ROOT)  # made once, not for each line
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(
        "import ehkafka\n"
        "app = ehkafka.App(group='g', endpoint=ehkafka.Endpoint.embedded(), start='earliest')\n"
    )
    (tmp_path / "broken.toml").write_text("[app\n")
    return found


@pytest.mark.parametrize("name", TREE)
def test_a_hostile_line_ends_in_one_sentence(name: str, asked: list[str], tmp_path: Path) -> None:
    """Each line ends in one sentence and exit code 2: no secret, traceback or new folder, no broker asked."""
    there = set(tmp_path.iterdir())
    lines = list(hostile_lines(name, TREE[name]))
    assert len(lines) >= 20
    wrong = []
    for line in lines:
        asked.clear()
        ended = CliRunner().invoke(cli, line, prog_name="ehkafka")
        problems = list(_problems(ended))
        if asked:
            problems.append(f"asked {asked}")
        if problems:
            wrong.append(f"{[word[:60] for word in line]}: {', '.join(problems)}: {ended.stderr[:300]!r}")
    assert wrong == [], "\n".join([f"{len(wrong)} of {len(lines)} lines", *wrong])
    assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == there


def _problems(ended: Any) -> Iterator[str]:
    text = ended.stderr
    if ended.exit_code != 2:
        yield f"exit code {ended.exit_code}"
    if ended.stdout:
        yield "something on stdout"
    if not text.startswith("ehkafka: ") or text.count("\n") != 1 or not text[:-1].isprintable():
        yield "not one line"
    if "Traceback" in text:
        yield "a traceback"
    if SECRET in text:
        yield "a secret"
    if len(text) > 1_500:
        yield f"{len(text)} characters"


def test_every_command_has_a_good_line() -> None:
    """A new command has to be tried, too."""
    assert set(GOOD) == set(TREE)
