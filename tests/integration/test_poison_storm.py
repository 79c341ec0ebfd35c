"""A poison storm on a real broker: the poisoned records, and no others, become letters and come home."""

from __future__ import annotations

import itertools
import logging
import os
import random
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

import ehkafka
from ehkafka.checks import Target
from ehkafka.redrive.redrive import Redrive
from tests.kit.checker.checker import Checker
from tests.kit.topic_read import read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("storm")
RECORDS = int(os.environ.get("EHKAFKA_STORM_RECORDS", "10000"))
TIMEOUT_S = 60.0 + RECORDS / 500
# 2 %, exactly.
POISON_EVERY = 50
KEYS = 1_000
PARTITIONS = 8
ATTEMPTS = 3

Place = tuple[int, int]


class Storm:
    """A handler that fails for poison until it is fixed, and counts the calls of every record."""

    def __init__(self) -> None:
        self.is_fixed = False
        self.calls: Counter[Place] = Counter()
        self.finished: dict[bytes, list[Place]] = defaultdict(list)
        self.values: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def __call__(self, record: ehkafka.Record) -> None:
        """Handle a record; of one key in the order of the offsets."""
        place = (record.partition(), record.offset())
        value = record.value() or b""
        with self._lock:
            self.calls[place] += 1
        if value.startswith(b"poison") and not self.is_fixed:
            raise ValueError("poison")
        with self._lock:
            self.finished[record.key() or b""].append(place)
            self.values[value] += 1


def produce_storm(bootstrap: str, topic: str) -> dict[Place, tuple[bytes, bytes]]:
    """Produce records with Zipf-like keys, each of its own value; return key and value by place."""
    chance = random.Random(11)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, KEYS + 1)))
    keys = chance.choices([b"key-%d" % number for number in range(KEYS)], cum_weights=weights, k=RECORDS)
    placed: dict[Place, tuple[bytes, bytes]] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})

    def delivered(error: Any, message: Any) -> None:
        assert error is None
        placed[message.partition(), message.offset()] = (message.key(), message.value())

    poison = set(chance.sample(range(RECORDS), RECORDS // POISON_EVERY))
    for number, key in enumerate(keys):
        kind = b"poison" if number in poison else b"fine"
        headers = [("number", str(number).encode())]
        producer.produce(topic, b"%s-%d" % (kind, number), key, headers=headers, on_delivery=delivered)
        producer.poll(0)
    producer.flush(60.0)
    assert len(placed) == RECORDS
    return placed


def headers_of(message: Any) -> dict[str, str]:
    """Return a message's headers as text."""
    return {name: value.decode() for name, value in message.headers()}


def test_a_poison_storm_and_the_way_back(
    stage_on: Callable[..., Any],
    kafka: Any,
    eventually: Callable[..., None],
) -> None:
    """One letter for each poisoned record, order per key intact, and all come home once."""
    stage = stage_on(kafka, PARTITIONS)
    dead = f"{stage.topic}.dead"
    kafka.create_topic(dead, 4, {})
    placed = produce_storm(kafka.bootstrap, stage.topic)
    poisoned = {place: pair for place, pair in placed.items() if pair[1].startswith(b"poison")}
    assert len(poisoned) == RECORDS // POISON_EVERY
    storm = Storm()
    app = stage.app(
        storm,
        retry=ehkafka.Retry(attempts=ATTEMPTS, first_s=0.01, jitter=0.5),
        on_failure=ehkafka.DeadLetter(dead),
    )
    began_s = time.monotonic()
    app.start()
    snapshot = app.snapshot
    eventually(
        lambda: snapshot().finished_records + snapshot().dead_lettered_records == RECORDS,
        lambda: str(snapshot()),
        TIMEOUT_S,
    )
    storm_s = time.monotonic() - began_s
    assert snapshot().dead_lettered_records == len(poisoned)
    assert all(storm.calls[place] == (ATTEMPTS if place in poisoned else 1) for place in placed)
    letters = read_messages(kafka.bootstrap, dead)
    check_letters(stage, letters, poisoned)

    storm.is_fixed = True
    redrive = Redrive(target=Target(endpoint=ehkafka.Endpoint.kafka(kafka.bootstrap)), topic=dead)
    began_s = time.monotonic()
    count = redrive.run()
    redrive_s = time.monotonic() - began_s
    assert (count.redriven, count.passed_over, count.foreign) == (len(poisoned), 0, 0)
    eventually(lambda: len(storm.values) == RECORDS, lambda: str(snapshot()), TIMEOUT_S)
    app.stop()
    assert set(storm.values.values()) == {1}
    check_way_home(kafka.bootstrap, stage.topic, placed, letters)
    for places in storm.finished.values():
        by_partition = [[offset for number, offset in places if number == p] for p in range(PARTITIONS)]
        assert all(offsets == sorted(offsets) for offsets in by_partition)
    verdict = stage.verdict(Checker())
    assert verdict.ok, verdict.report()
    LOG.info("%d letters of %d: storm %.1f s, home %.1f s", len(poisoned), RECORDS, storm_s, redrive_s)


def check_letters(stage: Any, letters: list[Any], poisoned: dict[Place, tuple[bytes, bytes]]) -> None:
    """Each poisoned record has one letter with key, value and reason; a key's letters are in order."""
    last: dict[bytes, int] = {}
    seen: set[Place] = set()
    for letter in letters:
        text = headers_of(letter)
        place = (int(text["ehkafka-origin-partition"]), int(text["ehkafka-origin-offset"]))
        assert place not in seen
        seen.add(place)
        assert (letter.key(), letter.value()) == poisoned[place]
        assert text["number"] == letter.value().decode().rpartition("-")[2]
        assert text["ehkafka-origin-topic"] == stage.topic
        assert text["ehkafka-error-type"] == "ValueError"
        assert text["ehkafka-attempts"] == str(ATTEMPTS)
        assert text["ehkafka-group"] == stage.group
        assert last.get(letter.key(), -1) < place[1]
        last[letter.key()] = place[1]
    assert seen == set(poisoned)


def check_way_home(
    bootstrap: str, topic: str, placed: dict[Place, tuple[bytes, bytes]], letters: list[Any]
) -> None:
    """Each letter is back in its own partition, with its own headers and the count of its returns alone."""
    back = [m for m in read_messages(bootstrap, topic) if (m.partition(), m.offset()) not in placed]
    homes = {letter.value(): int(headers_of(letter)["ehkafka-origin-partition"]) for letter in letters}
    assert {m.value(): m.partition() for m in back} == homes
    assert len(back) == len(letters)
    assert all(set(headers_of(m)) == {"number", "ehkafka-redriven"} for m in back)
    for key in {m.key() for m in back}:
        ours = [m.value() for m in back if m.key() == key]
        assert ours == [letter.value() for letter in letters if letter.key() == key]
