"""`ehkafka produce` as a user sees it, on the embedded broker."""

from __future__ import annotations

import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import KafkaError
from typer.testing import CliRunner

from ehkafka.cli import produce as module
from ehkafka.cli.commands import cli
from ehkafka.embedded.requests import ApiKey
from ehkafka.embedded.topics import produce as fill
from ehkafka.testing import EmbeddedBroker
from tests.kit.running import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.terminal import Terminal

Found = tuple[Any, Any, dict[str, Any]]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with an empty topic of one partition."""
    with EmbeddedBroker({"orders": 1}) as broker:
        yield broker


def produce(
    bootstrap: str, *arguments: str, stdin: bytes = b"", topic: str = "orders"
) -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    asked = ["produce", topic, *arguments, "--endpoint", bootstrap, "--timeout", "5"]
    ended = CliRunner().invoke(cli, asked, input=stdin)
    return ended.exit_code, ended.stdout, ended.stderr


def found(bootstrap: str, count: int, topic: str = "orders") -> list[Found]:
    """Return key, value and properties of the first records."""
    asked = ["tail", topic, "--endpoint", bootstrap, "--from", "earliest", "--count", str(count), "--json"]
    lines = CliRunner().invoke(cli, asked).stdout.splitlines()
    records = map(orjson.loads, lines)
    return [(one["key"], one["value"], one["properties"]) for one in records]


BYTES = {"base64": "/w=="}


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (["one", "two", "--key", "k"], b"", [("k", "one", {}), ("k", "two", {})]),
        ([""], b"", [(None, "", {})]),
        ([], b"a\n\n b\r\nlast", [(None, text, {}) for text in ("a", "", " b\r", "last")]),
        (["--key-delimiter", "::"], b"k::v::w\n::x\n", [("k", "v::w", {}), ("", "x", {})]),
        (["x", "--header", "unit=C", "--header", "e="], b"", [(None, "x", {"unit": "C", "e": ""})]),
        (
            ["--ndjson", "--header", "own=1"],
            (
                b'{"key":"k","value":{"n":1},"headers":{"a":"b"}}\n\n'
                b'{"key":null,"value":{"base64":"/w=="},"headers":[{"key":"c","value":null}],"offset":7}\n'
                b'{"key":7,"value":null}\n{"value":"text"}'
            ),
            [
                ("k", '{"n":1}', {"own": "1", "a": "b"}),
                (None, BYTES, {"own": "1", "c": None}),
                ("7", None, {"own": "1"}),
                (None, "text", {"own": "1"}),
            ],
        ),
    ],
)
def test_records_are_arguments_lines_or_json(
    broker: EmbeddedBroker, arguments: list[str], stdin: bytes, expected: list[Found]
) -> None:
    """Each record has the bytes that were given, in their order."""
    code, text, words = produce(broker.bootstrap, *arguments, stdin=stdin)
    assert (code, words) == (0, "")
    assert text.splitlines()[0] == f"{len(expected)} record{'s' * (len(expected) > 1)} written to orders"
    assert text.split()[-4:] == ["0", str(len(expected)), "0", str(len(expected) - 1)]
    assert found(broker.bootstrap, len(expected)) == expected


def test_json_tells_where_they_are(broker: EmbeddedBroker) -> None:
    """One object, with the offsets of each partition."""
    broker.create_topic("wide", 3)
    produce(broker.bootstrap, "first", "--partition", "2", topic="wide")
    code, text, _ = produce(broker.bootstrap, "a", "b", "--partition", "2", "--json", topic="wide")
    place = {"partition": 2, "records": 2, "first_offset": 1, "last_offset": 2}
    assert (code, orjson.loads(text)) == (0, {"topic": "wide", "records": 2, "partitions": [place]})


@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (
            ["--ndjson"],
            b"{}",
            'Line 1 of stdin cannot be written: it is not a JSON object with the field "value"',
        ),
        (
            ["--ndjson"],
            b'\xef\xbb\xbf{"value":1}',
            "Line 1 of stdin cannot be written: it begins with a byte order",
        ),
        (
            ["--ndjson"],
            b'\n\n{"value":"\xff"}',
            "Line 3 of stdin cannot be written: its byte 11 is not UTF-8",
        ),
        (["--ndjson"], b'{"value":', "it is not JSON (unexpected end of data at character 10)"),
        (["--ndjson"], b'{"value":1,"kye":2}', "it has the unknown field 'kye': use key, value and headers"),
        (["--ndjson"], b'{"value":1,"headers":3}', 'give headers as {"name": "text"}, or as [{"key'),
        (["--ndjson"], b'{"value":1,"headers":[{"k":1}]}', 'give headers as {"name": "text"}, or as [{"key'),
        (["--ndjson"], b'{"value":{"base64":"?"}}', "value is not valid base64: encode its bytes again"),
        (["--ndjson"], b'{"key":{"base64":3},"value":1}', "key is not valid base64: encode its bytes again"),
        (["--ndjson"], b'{"value":1,"headers":{"h":{"base64":"YQ"}}}', "header 'h' is not valid base64"),
        (["--key-delimiter", ":"], b"none", "Line 1 of stdin cannot be written: it has no ':' between"),
        (
            ["x", "--key-delimiter", ":"],
            b"",
            "Value 1 cannot be written: it has no ':' between key and value",
        ),
        (["x", "--key", "k", "--ndjson"], b"", "--key, --key-delimiter and --ndjson each decide the key"),
        (["x", "--header", "name"], b"", "--header 'name' is not NAME=VALUE"),
        (["x", "--header", "=v"], b"", "--header '=v' is not NAME=VALUE"),
        (["x", "--partition", "1"], b"", "Topic 'orders' has no partition 1: give one from 0 to 0"),
        (["x" * 1_100_000], b"", "has 1100000 bytes; the limit is"),
    ],
)
def test_what_is_no_record_is_refused(
    broker: EmbeddedBroker, arguments: list[str], stdin: bytes, expected: str
) -> None:
    """One sentence, exit code 2, and nothing is reported as written."""
    code, text, words = produce(broker.bootstrap, *arguments, stdin=stdin)
    assert (code, text) == (2, "")
    assert expected in words
    assert words.count("\n") == 1


def test_records_before_an_error_are_written_and_reported(broker: EmbeddedBroker) -> None:
    """The lines before the bad one are in the topic, and the user knows which."""
    code, text, words = produce(broker.bootstrap, "--ndjson", "--json", stdin=b'{"value":"good"}\nbad\n')
    assert code == 2
    assert orjson.loads(text)["records"] == 1
    assert "Line 2 of stdin cannot be written" in words
    assert found(broker.bootstrap, 1) == [(None, "good", {})]


def test_a_topic_that_is_not_there_is_not_made(broker: EmbeddedBroker) -> None:
    """A name that is spelled wrong would be a topic without readers."""
    code, text, words = produce(broker.bootstrap, "x", topic="order")
    assert (code, text) == (3, "")
    assert "Did you mean 'orders'" in words


def test_a_record_that_the_broker_refuses_ends_it(broker: EmbeddedBroker) -> None:
    """The reason is the broker's, the exit code 3."""
    broker.fail_next(ApiKey.PRODUCE, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 20)
    code, text, words = produce(broker.bootstrap, "x")
    assert (code, text) == (3, "")
    assert "A record was not written to orders: " in words
    assert "TOPIC_AUTHORIZATION_FAILED" in words
    assert "app.producer" not in words


def test_a_line_without_an_end_does_not_fill_the_memory(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused once it is longer than any record."""
    monkeypatch.setattr(module, "LINE_BYTES_MAX", 8)
    code, _, words = produce(broker.bootstrap, stdin=b"12345678901")
    assert code == 2
    assert "Line 1 of stdin is longer than 8 bytes" in words


def test_a_bare_terminal_is_refused(broker: EmbeddedBroker, terminal: Callable[..., Terminal]) -> None:
    """Nothing is piped in: the command tells how, and does not wait for keys."""
    window = terminal("", "produce", "orders", "--endpoint", broker.bootstrap)
    assert window.process.wait(30) == 2
    window._thread.join(5)
    assert "The command has no records to write: give values as arguments" in window.text


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_tells_what_was_written(broker: EmbeddedBroker, tmp_path: Path, sent: str) -> None:
    """Ctrl-C, SIGTERM or a closed terminal while stdin has no more lines: exit code 130."""
    asked = [*COMMAND, "produce", "orders", "--endpoint", broker.bootstrap, "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOWLY, sent, *asked],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        out, words = process.communicate(timeout=60)
    assert (process.returncode, words.count(b"interrupted: ")) == (130, 1)
    assert orjson.loads(out)["records"] == 1


# Gives the command a line, and interrupts it once that is written.
SLOWLY = """
import signal, subprocess, sys
import ehkafka
from ehkafka.arrow import read
with subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE) as command:
    command.stdin.write(b"line\\n")
    command.stdin.flush()
    endpoint = ehkafka.Endpoint.kafka(sys.argv[sys.argv.index("--endpoint") + 1])
    while not sum(map(len, read(endpoint, "orders", start="earliest"))):
        pass
    command.send_signal(signal.Signals[sys.argv[1]])
    code = command.wait()
sys.exit(code)
"""


@pytest.mark.broker
def test_on_apache_kafka_an_export_is_written_again(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Lines of an export, bytes and headers included, are the same records in another topic."""
    first, second = (f"produce-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for topic in (first, second):
        kafka.create_topic(topic, 1)
    fill(
        kafka.bootstrap,
        first,
        [("k", b"text"), (b"\xff", b"\x00\xfe"), (None, None)],
        headers=[("h", b"\xff")],
    )
    file = tmp_path / "records.ndjson"
    asked = ["export", first, "--endpoint", kafka.bootstrap, "--from", "earliest", "--to", str(file)]
    assert CliRunner().invoke(cli, [*asked, "--columns", "key,value,headers,offset"]).exit_code == 0
    code, text, words = produce(kafka.bootstrap, "--ndjson", stdin=file.read_bytes(), topic=second)
    assert (code, text.splitlines()[0], words) == (0, f"3 records written to {second}", "")
    assert found(kafka.bootstrap, 3, second) == found(kafka.bootstrap, 3, first)
