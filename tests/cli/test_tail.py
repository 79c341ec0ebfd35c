"""`ehkafka tail` as a user sees it, on the embedded broker."""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from ehkafka.cli.commands import cli
from ehkafka.cli.target import parse_from
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOSTILE = b"\x1b]0;owned\x07\x1b[2J\r\nnext\xc2\x9b31m"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with five orders in each of two partitions."""
    with EmbeddedBroker({"orders": 2, "odd": 1}) as broker:
        for partition in range(2):
            orders = [(f"k{number}", b'{"n":%d}' % number) for number in range(5)]
            broker.produce("orders", orders, partition=partition, headers=[("unit", "C")])
        yield broker


def tail(broker: EmbeddedBroker, *arguments: str, topic: str = "orders") -> tuple[int, list[str], str]:
    """Run the command; return its exit code, the lines of stdout, and stderr."""
    asked = ["tail", topic, "--endpoint", broker.bootstrap, "--timeout", "5"]
    ended = CliRunner().invoke(cli, [*asked, *arguments])
    return ended.exit_code, ended.stdout.splitlines(), ended.stderr


def places(lines: list[str]) -> list[str]:
    """Return partition@offset of each line, in order of the partitions."""
    return sorted(line.split()[1] for line in lines)


def test_a_record_is_a_line(broker: EmbeddedBroker) -> None:
    """Time, place, key, value, and what the producer put into the headers."""
    code, (line,), _ = tail(broker, "--from", "3", "--partition", "1", "--count", "1")
    assert code == 0
    assert line.endswith('Z 1@3 k3 {"n":3}  unit=C')


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "earliest", "--count", "10"], [f"{p}@{n}" for p in range(2) for n in range(5)]),
        (["--from", "-1", "--count", "2"], ["0@4", "1@4"]),
        (["--from", "-99", "--partition", "0", "--count", "5"], [f"0@{n}" for n in range(5)]),
        (["--from", "3", "--count", "4"], ["0@3", "0@4", "1@3", "1@4"]),
        (["--from", "earliest", "--key", "k2", "--count", "2"], ["0@2", "1@2"]),
    ],
)
def test_where_it_begins_and_ends(broker: EmbeddedBroker, arguments: list[str], expected: list[str]) -> None:
    """Places, partitions, keys and counts choose the records, and the end comes after the last."""
    code, lines, notices = tail(broker, *arguments)
    assert code == 0
    assert places(lines) == expected
    assert notices == ""


def test_it_joins_nothing_and_commits_nothing(broker: EmbeddedBroker) -> None:
    """No group's position moves, and no group is made or joined."""
    broker.track_requests()
    assert tail(broker, "--from", "earliest", "--count", "3")[0] == 0
    for api in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        assert broker.requests(api) == []


def test_records_that_come_later_are_shown(broker: EmbeddedBroker, start_ehkafka: Callable) -> None:
    """It begins at the end and goes on until Ctrl-C, which is a good end."""
    running = start_ehkafka("tail", "orders", "--endpoint", broker.bootstrap, "--from", "-1")
    running.wait_for("1@4")
    broker.produce("orders", [("late", b"comer")], partition=0)
    running.wait_for("0@5 late comer")
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 0
    assert running.stderr == ""


def test_a_closed_pipe_ends_it_quietly(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """As in `| head -1`: no message, no traceback."""
    command = [sys.executable, "-P", "-m", "ehkafka.cli"]
    arguments = ["tail", "orders", "--endpoint", broker.bootstrap, "--from", "earliest"]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "@" in process.stdout.readline()
        process.stdout.close()
        # Enough to fill its buffers, and less than the log holds: else it would hear of a gap.
        broker.produce("orders", [("more", b"x" * 1000)] * 100)
        assert (process.stderr.read(), process.wait()) == ("", 0)


def test_json_is_one_object_a_line(broker: EmbeddedBroker) -> None:
    """Bytes are text where they are UTF-8, else marked base64; nothing is cut."""
    broker.produce("odd", [("k", b"x" * 5000), (b"\xff", b"\x00\xfe"), (None, None)], partition=0)
    code, lines, _ = tail(broker, "--json", "--from", "earliest", "--count", "3", topic="odd")
    assert code == 0
    long, binary, empty = map(orjson.loads, lines)
    assert long["value"] == "x" * 5000
    assert base64.b64decode(binary["value"]["base64"]) == b"\x00\xfe"
    assert base64.b64decode(binary["key"]["base64"]) == b"\xff"
    assert (empty["key"], empty["value"]) == (None, None)
    assert (long["topic"], long["partition"], long["offset"]) == ("odd", 0, 0)


def test_headers_are_decoded(broker: EmbeddedBroker) -> None:
    """The partition key of an AMQP producer stands in for the key."""
    broker.produce("odd", [(None, b"v")], partition=0, headers=[("x-opt-partition-key", b"\xa1\x06home-1")])
    _, (line,), _ = tail(
        broker, "--json", "--from", "earliest", "--key", "home-1", "--count", "1", topic="odd"
    )
    assert orjson.loads(line)["partition_key"] == "home-1"


@pytest.mark.parametrize("form", [[], ["--json"], ["--full"]])
def test_what_steers_a_terminal_is_escaped(broker: EmbeddedBroker, form: list[str]) -> None:
    """Escape sequences and line ends in key, value and headers never reach the output."""
    broker.produce("odd", [(HOSTILE, HOSTILE)], partition=0, headers=[("h\x1b[31m", HOSTILE)])
    code, lines, _ = tail(broker, *form, "--from", "earliest", "--count", "1", topic="odd")
    assert code == 0
    assert len(lines) == 1
    assert lines[0].isprintable()
    assert "next" in lines[0]


def test_long_values_are_cut_with_their_size(broker: EmbeddedBroker) -> None:
    """A line stays readable; --full shows all."""
    broker.produce("odd", [("k", "ä".encode() * 1000), ("k", b"\xff" * 2000)], partition=0)
    arguments = ["--from", "earliest", "--count", "2"]
    _, (text, binary), _ = tail(broker, *arguments, topic="odd")
    assert text.endswith("ä… (2000 bytes)")
    assert binary.endswith("… (2000 bytes)")
    assert max(len(text), len(binary)) < 400
    _, (text, binary), _ = tail(broker, *arguments, "--full", topic="odd")
    assert text.endswith("ä" * 1000)
    assert base64.b64decode(binary.partition("base64:")[2]) == b"\xff" * 2000


def test_a_place_outside_of_the_log_is_moved_and_reported(broker: EmbeddedBroker) -> None:
    """What retention took cannot be shown: it begins at what is left, and says so on stderr."""
    broker.delete_records("orders", 0, 3)
    code, lines, notices = tail(broker, "--from", "1", "--partition", "0", "--count", "2")
    assert code == 0
    assert places(lines) == ["0@3", "0@4"]
    assert "orders[0] holds offsets 3 to 5: reading begins at offset 3, not 1" in notices


def test_a_wrong_topic_is_explained(broker: EmbeddedBroker) -> None:
    """The name that was meant is offered."""
    code, lines, words = tail(broker, topic="order")
    assert code == 3
    assert lines == []
    assert "Did you mean 'orders'" in words


def test_a_moment_without_a_zone_is_local() -> None:
    """It is one of this machine's clock."""
    moment = parse_from("2026-01-31T12:00")
    assert moment.tzinfo is not None  # type: ignore[union-attr]
    assert moment.hour == 12  # type: ignore[union-attr]


def test_a_broker_that_is_not_there_is_said_to_be_so() -> None:
    """Not that it is there and refuses: no broker answered."""
    with socket.socket() as taken:  # bound, without a server
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = CliRunner().invoke(cli, ["tail", "orders", "--endpoint", address, "--timeout", "1"])
    assert ended.exit_code == 3
    assert "cannot be reached" in ended.stderr
    assert "ehkafka check" in ended.stderr
    assert "a Kafka broker listens" not in ended.stderr


@pytest.mark.parametrize("milliseconds", [2**62, 2**53, -1, -(2**62)])
def test_a_timestamp_that_no_calendar_has_is_none(broker: EmbeddedBroker, milliseconds: int) -> None:
    """A producer may write any number."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce("odd", b"strange", timestamp=milliseconds)
    producer.flush(10.0)
    code, lines, words = tail(broker, "--from", "earliest", "--count", "1", topic="odd")
    assert (code, words) == (0, "")
    assert lines[0].startswith("- ")
    code, lines, words = tail(broker, "--from", "earliest", "--count", "1", "--json", topic="odd")
    assert (code, orjson.loads(lines[0])["time"], words) == (0, None, "")


def test_a_key_may_be_any_bytes_of_the_command_line(broker: EmbeddedBroker) -> None:
    """Python hands over what is no UTF-8 as lone surrogates."""
    broker.produce("odd", [(b"a\xff", b"found")])
    key = os.fsdecode(b"a\xff")
    code, lines, _ = tail(broker, "--from", "earliest", "--count", "1", "--key", key, topic="odd")
    assert code == 0
    assert "found" in lines[0]
