"""`ehkafka dlq` as a user sees it: what lies among the dead letters, and the way back."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from typer.testing import CliRunner

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.cli.commands import cli
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import ConfigurationError, TopicNotFoundError
from ehkafka.recovery.letters.letter import LetterFilter
from ehkafka.redrive.redrive import Redrive
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.redrive.order import RedriveCount

QUICK = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}
NOW_MS = int(time.time() * 1000)
HOSTILE = "\x1b[2J\r\n"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with a topic, another one, and one for dead letters."""
    with EmbeddedBroker({"t": 2, "u": 2, "dead": 2}) as broker:
        yield broker


def bury(
    broker: EmbeddedBroker,
    offset: int,
    key: str = "k",
    *,
    origin: str = "t",
    partition: int = 0,
    dead: int = 0,
    error: str = "ValueError",
    age_s: int = 0,
    own: tuple[tuple[str, bytes | None], ...] = (("unit", b"C"),),
    stack: str = "",
) -> None:
    """Put one letter into a partition of the dead letters."""
    made = letter_headers(offset, origin=origin, partition=partition, error=error, age_s=age_s, stack=stack)
    broker.produce("dead", [(key.encode(), b"value %d" % offset)], partition=dead, headers=[*own, *made])


def letter_headers(
    offset: int = 0,
    *,
    origin: str = "t",
    partition: int = 0,
    error: str = "ValueError",
    age_s: int = 0,
    stack: str = "",
) -> list[tuple[str, bytes]]:
    """Return the headers that make a letter."""
    words = {
        "origin-topic": origin,
        "origin-partition": partition,
        "origin-offset": offset,
        "origin-timestamp-ms": NOW_MS,
        "error-type": error,
        "error-text": f"{error}: no luck with {offset}",
        "attempts": 3,
        "failed-at-ms": NOW_MS - age_s * 1000,
        "handler": "handle",
        "group": "g",
        **({"error-stack": stack} if stack else {}),
    }
    return [(f"ehkafka-{name}", str(value).encode()) for name, value in words.items()]


def dlq(broker: EmbeddedBroker, *arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    ended = CliRunner().invoke(cli, ["dlq", *arguments, "--endpoint", broker.bootstrap, "--timeout", "5"])
    return ended.exit_code, ended.stdout, ended.stderr


def redrive_of(broker: EmbeddedBroker, **options: Any) -> Redrive:
    """Return a redrive whose group forms quickly."""
    target = Target(endpoint=Endpoint.kafka(broker.bootstrap), consumer=QUICK)
    return Redrive(target=target, topic="dead", timeout_s=5.0, **options)


def progress(broker: EmbeddedBroker) -> dict[int, int]:
    """Return what redrives of the default group have committed, by partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "dead.redrive"})
    asked = [
        TopicPartition("dead", number) for number in consumer.list_topics("dead").topics["dead"].partitions
    ]
    committed = {one.partition: one.offset for one in consumer.committed(asked, timeout=5.0)}
    consumer.close()
    return {number: offset for number, offset in committed.items() if offset >= 0}


def at_home(broker: EmbeddedBroker, topic: str = "t") -> list[Any]:
    """Return all records of a topic."""
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "r", "enable.partition.eof": True})
    try:
        left = {0, 1}
        reader.assign([TopicPartition(topic, number, 0) for number in left])
        found: list[Any] = []
        while left:
            for message in reader.consume(100, 0.1):
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        return found
    finally:
        reader.close()


def test_list_counts_by_topic_and_error_and_shows_the_newest_first(broker: EmbeddedBroker) -> None:
    """Origin, key, attempts, error and age of each; what is no letter is counted apart."""
    for offset in range(3):
        bury(broker, offset, age_s=100 - offset)
    bury(broker, 7, "other", origin="u", dead=1, error="KeyError", age_s=50)
    broker.produce("dead", [(b"stray", b"no letter")], partition=0)
    code, text, _ = dlq(broker, "list", "dead", "--limit", "2")
    assert code == 0
    first, *lines = text.splitlines()
    assert first == "4 letters"
    assert lines.pop(0).split() == ["LETTERS", "ORIGIN", "ERROR"]
    assert lines[0].split() == ["3", "t", "ValueError"]
    assert lines[1].split() == ["1", "u", "KeyError"]
    assert lines[2] == "1 other record was not written by an ehkafka app"
    rows = [re.split(" {2,}", line) for line in lines[5:]]
    assert [[row[0], *row[2:]] for row in rows] == [
        ["1@0", "u[0]@7", "other", "3", "KeyError: no luck with 7"],
        ["0@2", "t[0]@2", "k", "3", "ValueError: no luck with 2"],
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--key", "a"], [0]),
        (["--error", "KEY"], [1]),
        (["--error", "luck with 2"], [2]),
        (["--origin-topic", "u"], [3]),
        (["--since", "-1d"], [0, 1, 3]),
        (["--limit", "0"], []),
    ],
)
def test_filters_choose_letters(broker: EmbeddedBroker, options: list[str], expected: list[int]) -> None:
    """By key, error, origin and time; the limit bounds only what is shown."""
    bury(broker, 0, "a")
    bury(broker, 1, "b", error="KeyError")
    bury(broker, 2, "b", age_s=7 * 86_400)
    bury(broker, 3, "b", origin="u")
    code, text, _ = dlq(broker, "list", "dead", "--json", *options)
    assert code == 0
    found = orjson.loads(text)
    assert sorted(letter["origin_offset"] for letter in found["newest"]) == expected
    assert found["letters"] == (4 if "--limit" in options else len(expected))


def test_show_tells_one_letter_whole_and_escapes_it(broker: EmbeddedBroker) -> None:
    """Nothing that steers a terminal gets out, in neither form."""
    bury(broker, 5, f"k{HOSTILE}", error=f"Bad{HOSTILE}", own=((f"h{HOSTILE}", HOSTILE.encode()),))
    code, text, _ = dlq(broker, "show", "dead", "0@0")
    assert code == 0
    assert all(line.isprintable() for line in text.splitlines())
    assert "origin    t[0]@5" in text
    assert "value     value 5" in text
    code, text, _ = dlq(broker, "show", "dead", "0@0", "--json")
    assert text.strip().isprintable()
    assert orjson.loads(text)["headers"][0] == {"name": f"h{HOSTILE}", "value": HOSTILE}


def test_a_key_of_any_bytes_is_found(broker: EmbeddedBroker) -> None:
    """What is typed reaches Python as bytes that are no UTF-8."""
    bury(broker, 5)
    broker.produce("dead", [(b"caf\xe9", b"v")], partition=0, headers=letter_headers())
    code, text, error = dlq(broker, "list", "dead", "--key", os.fsdecode(b"caf\xe9"), "--json")
    assert code == 0, error
    assert orjson.loads(text)["letters"] == 1


@pytest.mark.parametrize("place", ["0@9", "1@0", "7", "0@-1", "9@0"])
def test_show_says_what_is_not_there(broker: EmbeddedBroker, place: str) -> None:
    """A mistake in the place is exit code 2 and one line."""
    bury(broker, 5)
    code, text, error = dlq(broker, "show", "dead", place)
    assert (code, text) == (2, "")
    assert "Traceback" not in error


def test_looking_joins_nothing_and_commits_nothing(broker: EmbeddedBroker) -> None:
    """`list`, `show` and a redrive without --yes leave everything as it is."""
    bury(broker, 0)
    broker.track_requests()
    assert dlq(broker, "list", "dead")[0] == 0
    assert dlq(broker, "show", "dead", "0@0")[0] == 0
    code, text, _ = dlq(broker, "redrive", "dead")
    assert code == 0
    assert "1 letter would be brought back" in text
    assert "Add --yes" in text
    for api in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.PRODUCE):
        assert broker.requests(api) == []


def test_a_redrive_brings_letters_home_as_they_were(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """To their topic and partition, with key, value and own headers, and counted; by the command."""
    own = (("traceparent", b"00-1"), ("twice", b"1"), ("twice", None))
    bury(broker, 3, "a", partition=1, own=own)
    bury(broker, 4, "b", origin="u", own=(("ehkafka-redriven", b"1"),))
    broker.produce("dead", [(b"stray", b"no letter")], partition=1)
    settings = tmp_path / "quick.toml"
    settings.write_text("[consumer]\n" + "\n".join(f'"{name}" = {value}' for name, value in QUICK.items()))
    options = ["redrive", "dead", "--yes", "--json", "--config", str(settings)]
    code, text, error = dlq(broker, *options)
    assert code == 0, error
    assert orjson.loads(text) == {
        "dry_run": False,
        "redriven": 2,
        "passed_over": 0,
        "foreign_records": 1,
        "to": [{"topic": "t", "partition": 1, "letters": 1}, {"topic": "u", "partition": 0, "letters": 1}],
    }
    (first,) = at_home(broker, "t")
    assert (first.partition(), first.key(), first.value()) == (1, b"a", b"value 3")
    assert first.headers() == [*own, ("ehkafka-redriven", b"1")]
    (second,) = at_home(broker, "u")
    assert second.headers() == [("ehkafka-redriven", b"2")]
    code, text, _ = dlq(broker, *options)
    assert (code, orjson.loads(text)["redriven"]) == (0, 0)
    assert len(at_home(broker, "t")) == 1


def test_a_filter_passes_letters_over_and_counts_them(broker: EmbeddedBroker) -> None:
    """Another group has them all again."""
    for offset, key in enumerate("abab"):
        bury(broker, offset, key)
    count = redrive_of(broker, choose=LetterFilter(key="a")).run()
    assert (count.redriven, count.passed_over) == (2, 2)
    assert redrive_of(broker).run().seen == 0
    other = redrive_of(broker, choose=LetterFilter(key="b"), group="others")
    assert other.plan().redriven == 2
    assert other.run().redriven == 2
    assert [m.value() for m in at_home(broker)] == [b"value 0", b"value 2", b"value 1", b"value 3"]


def test_ctrl_c_commits_what_is_at_home_by_then(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next redrive brings the rest, and writes nothing twice."""
    monkeypatch.setattr("ehkafka.redrive.redrive.COMMIT_S", 0.01)
    monkeypatch.setattr("ehkafka.redrive.order.AHEAD_RECORDS_MAX", 2)
    monkeypatch.setattr("ehkafka.checks.topic_reader.BATCH_RECORDS", 1)
    for offset in range(10):
        bury(broker, offset)
    counted: list[int] = []

    def report(count: RedriveCount) -> None:
        counted.append(count.redriven)
        if counted[-1] and counted[:-1].count(0) == len(counted) - 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        redrive_of(broker).run(report)
    home = len(at_home(broker))
    assert 0 < home < 10
    assert (progress(broker)[0], counted[-1]) == (home, home)
    assert redrive_of(broker).run().redriven == 10 - home
    assert [m.value() for m in at_home(broker)] == [b"value %d" % offset for offset in range(10)]


def test_progress_in_a_topic_that_was_made_anew_is_refused(broker: EmbeddedBroker) -> None:
    """The letters below it would be passed over in silence; another group begins at the first."""
    bury(broker, 0)
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "dead.redrive", **QUICK})
    member.commit(offsets=[TopicPartition("dead", 0, 7)], asynchronous=False)
    member.close()
    for go in (redrive_of(broker).plan, redrive_of(broker).run):
        with pytest.raises(ConfigurationError, match=r"commit of dead\[0\] is 7.* ends at 1.*--group"):
            go()
    assert redrive_of(broker, group="anew").run().redriven == 1


def test_to_names_another_topic(broker: EmbeddedBroker) -> None:
    """The partition stays; a letter without a home, or a home among the letters, stops all before a write."""
    bury(broker, 0, partition=1)
    bury(broker, 1, partition=5)
    bury(broker, 2, origin="gone")
    for to, error, words in (
        ("u", TopicNotFoundError, r"no u\[5\]"),
        (None, TopicNotFoundError, r"no gone\[0\]"),
        ("dead", ConfigurationError, "another --to"),
    ):
        with pytest.raises(error, match=words):
            redrive_of(broker, to=to).run()
    assert at_home(broker) == at_home(broker, "u") == []
    assert progress(broker) in ({}, {0: 0})
    assert redrive_of(broker, to="u", choose=LetterFilter(error="with 0")).run().to == {("u", 1): 1}
    assert [m.partition() for m in at_home(broker, "u")] == [1]


def test_a_second_redrive_is_refused(broker: EmbeddedBroker) -> None:
    """The group has a member already: the newcomer gets none of the partitions, or only a part."""
    bury(broker, 0)
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "dead.redrive", **QUICK})
    try:
        member.subscribe(["dead"])
        wait_until(member.assignment, meanwhile=lambda: member.consume(1, 0.05))
        stop = threading.Event()
        polls = threading.Thread(target=lambda: [member.consume(1, 0.05) for _ in iter(stop.is_set, True)])
        polls.start()
        try:
            with pytest.raises(ConfigurationError, match="another redrive"):
                redrive_of(broker).run()
        finally:
            stop.set()
            polls.join()
    finally:
        member.close()
    assert at_home(broker) == []


def test_list_names_the_line_that_failed_and_show_has_the_stack(broker: EmbeddedBroker) -> None:
    """The place stands behind the error; the stack is shown line by line, and no terminal is driven by it."""
    stack = f'at /app/h.py:12 in handle\nTraceback:\n  File "/app/h.py", line 12\n    {HOSTILE}raise'
    bury(broker, 7, stack=stack)
    _, text, _ = dlq(broker, "list", "dead")
    assert text.splitlines()[-1].endswith("ValueError: no luck with 7 (/app/h.py:12 in handle)")
    _, text, _ = dlq(broker, "show", "dead", "0@0")
    shown = [line for line in text.splitlines() if line.startswith("stack ")]
    assert shown[0] == "stack     at /app/h.py:12 in handle"
    assert shown[2] == 'stack       File "/app/h.py", line 12'
    assert "\x1b" not in text
    assert "ehkafka-error-stack" not in text
    _, text, _ = dlq(broker, "show", "dead", "0@0", "--json")
    assert orjson.loads(text)["error_stack"] == stack
