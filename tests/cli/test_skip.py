"""`ehkafka offsets skip` as a user sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

import ehkafka
from ehkafka.testing import EmbeddedBroker
from tests.cli.test_offsets import ehkafka as command
from tests.cli.test_offsets import reset
from tests.kit.broken_batches import broken_batch, write_batch
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDS = 40


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with a topic of two partitions, records in one of them."""
    with EmbeddedBroker({"t": 2}) as broker:
        broker.produce("t", [(f"k{number}".encode(), b"v") for number in range(RECORDS)], partition=1)
        yield broker


def skip(broker: EmbeddedBroker, place: str, *options: str) -> tuple[int, str, str]:
    """Skip without a watch."""
    return command(broker, "offsets", "skip", place, "--watch-for", "0", *options)


def test_records_above_the_commit_are_skipped_where_they_lie(broker: EmbeddedBroker) -> None:
    """The position stays, and the next run passes over them; a program reads what was done."""
    reset(broker, "--to", "1=5", "--yes")
    code, text, error = skip(broker, "t/1@10-37", "--yes", "--json")
    assert code == 0, error
    found = orjson.loads(text)
    after = found["after"]["partitions"][1]
    assert (after["committed"], after["finished_above"], after["unfinished"]) == (5, 28, 7)
    started: list[int] = []
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    app.handler("t")(lambda record: started.append(record.offset()))
    with app:
        wait_until(lambda: RECORDS in [one.committed for one in app.snapshot().partitions])
    assert sorted(started) == [5, 6, 7, 8, 9, 38, 39]


@pytest.mark.parametrize(
    ("place", "code", "words"),
    [
        ("t", 2, "'t' names no record: give TOPIC/PARTITION@OFFSET"),
        ("t/1@x", 2, "names no record"),
        ("t/1@9-3", 2, "ends before it begins"),
        ("t/7@3", 3, "t/7@3 cannot be skipped: the topic has no such partition"),
        ("t/0@0", 3, "t/0@0 cannot be skipped: the group has no commit on this partition"),
        ("t/1@40", 3, "t/1@40 cannot be skipped: the log ends at 40"),
        ("t/1@30-99", 3, "99 is 59 ahead of the log's end (0–40). Nothing was moved."),
    ],
)
def test_what_cannot_be_skipped_is_said_in_a_preview_too(
    broker: EmbeddedBroker, place: str, code: int, words: str
) -> None:
    """With the exit code that tells programs, and without advice for other moves."""
    reset(broker, "--to", "1=5", "--yes")
    found, _, error = skip(broker, place)
    assert found == code
    assert words in error
    assert "--clamp" not in error


def test_past_a_batch_that_cannot_be_read_the_position_moves_to_the_next_record(
    broker: EmbeddedBroker,
) -> None:
    """Which the command finds; what lies before the batch is to be finished first."""
    write_batch(broker, "t", broken_batch("checksum", 3))
    broker.produce("t", [(b"k", b"v")], partition=0)
    reset(broker, "--to", "0=0", "--yes")
    code, text, error = skip(broker, "t/0@0")
    assert code == 0, error
    assert "skips 3; the offsets up to 2 cannot be read (_BAD_MSG)" in text
    assert skip(broker, "t/0@0", "--yes")[0] == 0
    shown = orjson.loads(command(broker, "lag", "t", "--json")[1])["partitions"][0]
    assert (shown["committed"], shown["lag"]) == (3, 1)


def test_what_lies_before_a_batch_that_cannot_be_read_comes_first(broker: EmbeddedBroker) -> None:
    """Marked where it lies it would stop the next reader, too."""
    broker.produce("t", [(b"k", b"v")] * 2, partition=0)
    write_batch(broker, "t", broken_batch("checksum", 3))
    reset(broker, "--to", "0=1", "--yes")
    code, _, error = skip(broker, "t/0@2", "--yes")
    assert code == 3
    assert "Unfinished before 2: 1 record. Let the group handle these first" in error
    reset(broker, "--to", "0=2", "--yes")
    assert skip(broker, "t/0@2", "--yes")[0] == 0


def test_a_search_that_ends_librdkafkas_process_ends_no_command(broker: EmbeddedBroker) -> None:
    """Behind a wrong checksum the client reads on at a wrong place, which can end its process."""
    write_batch(broker, "t", broken_batch("checksum", 3, b"never to be seen"))
    broker.produce("t", [(b"k", b"v")], partition=0)
    reset(broker, "--to", "0=0", "--yes")
    code, _, error = skip(broker, "t/0@0", "--yes")
    assert code == 3
    assert "the end of the batch was not found" in error
    assert "t/0@0-LAST" in error
    # Whose last offset is named: nothing is looked for.
    assert skip(broker, "t/0@0-2", "--yes")[0] == 0
    assert broker.committed("g", "t") == {0: 3, 1: None}
