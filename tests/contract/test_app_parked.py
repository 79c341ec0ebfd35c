"""The parked budget: what each declared action does once waiting keys have filled a partition's share."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import ParkedBudgetFull, PartitionPaused, RecordDeadLettered
from tests.contract.conftest import ends_with
from tests.kit.waiting import must_stay, wait_until

FOR_EVER = ehkafka.Retry(attempts=None, first_s=0.05, max_s=0.05)
# A share is never less than two batches.
SMALL = {"parked_records_max": 20, "consume_records_max": 10}


class Switch:
    """A handler that fails for keys beginning with `bad` until it is fixed."""

    def __init__(self) -> None:
        self.fixed = False
        self.done: list[tuple[int, bytes]] = []

    def __call__(self, record: Any) -> None:
        """Handle a record."""
        if record.key().startswith(b"bad") and not self.fixed:
            raise ValueError("poison")
        self.done.append((record.partition(), record.key()))

    def count(self, partition: int) -> int:
        """How many of a partition are done."""
        return [number for number, _ in list(self.done)].count(partition)


def paused(app: Any) -> list[int]:
    """Return the partitions that are paused."""
    return [p.partition.partition for p in app.snapshot().partitions if p.paused]


def test_pause_partition_pauses_that_one_and_names_the_key_until_it_recovers(lab: Any, events: Any) -> None:
    """Neighbours go on, health is red, nothing more is taken; once the key recovers all is worked off."""
    handler = Switch()
    app = lab.start(handler, "t4", retry=FOR_EVER, parked_records_max=80, consume_records_max=10)
    wait_until(lambda: len(app.snapshot().partitions) == 4)
    lab.produce("bad " * 30, topic="t4", partition=1)
    wait_until(lambda: paused(app) == [1])
    wait_until(lambda: not app.health())
    assert any("t4[1]" in reason and "key bad" in reason for reason in app.health().reasons)
    received = app.snapshot().partitions[1].received_records
    lab.produce("bad " * 30, topic="t4", partition=1)
    for partition in (0, 2, 3):
        lab.produce("good " * 50, topic="t4", partition=partition)
    wait_until(lambda: len(handler.done) == 150)
    assert app.snapshot().partitions[1].received_records == received
    assert {event.partition.partition for event in events.of(PartitionPaused)} == {1}
    (full,) = events.of(ParkedBudgetFull)
    assert (full.partition.partition, full.largest_key, full.action) == (1, "bad", "pause_partition")
    handler.fixed = True
    wait_until(lambda: lab.committed(1, topic="t4") == 60)
    wait_until(lambda: paused(app) == [] and app.health())


def test_dead_letter_sends_the_largest_key_in_order_and_healthy_keys_go_on(
    lab: Any, events: Any, read_topic: Any
) -> None:
    """The budget is freed by letters of the key that has most of it; its later records follow."""
    lab.broker.create_topic("dead", 1)
    handler = Switch()
    app = lab.start(
        handler,
        retry=ehkafka.Retry(attempts=None, first_s=60.0, max_s=60.0),
        on_failure=ehkafka.DeadLetter("dead"),
        on_parked_full="dead_letter",
        **SMALL,
    )
    lab.produce("bad1 bad2 " + "bad1 " * 30)
    wait_until(lambda: len(events.of(RecordDeadLettered)) == 31)
    lab.produce("good " * 20 + "bad1 " * 3)
    wait_until(lambda: handler.count(0) == 20 and len(events.of(RecordDeadLettered)) == 34)
    assert lab.committed() == 1
    assert app.snapshot().partitions[0].parked_records == 1
    app.stop()
    letters = read_topic("dead", 34)
    assert {letter.key() for letter in letters} == {b"bad1"}
    offsets = [int(dict(letter.headers())["ehkafka-origin-offset"]) for letter in letters]
    assert offsets == sorted(offsets)
    first, second, *_, last = [dict(letter.headers()) for letter in letters]
    assert b"the limit of waiting records of t[0] was reached: ValueError" in first["ehkafka-error-text"]
    assert (first["ehkafka-attempts"], second["ehkafka-attempts"]) == (b"1", b"0")
    assert last["ehkafka-error-text"] == b"an earlier record of its key was dead-lettered"


def test_a_diverted_key_takes_no_intake_credit(lab: Any, events: Any, monkeypatch: Any) -> None:
    """While its letters are written one by one, its records stay out of the backlog of ten."""
    monkeypatch.setattr("ehkafka.recovery.letters.target.RETRY_FIRST_S", 60.0)

    def refuse(_letter: Any) -> None:
        raise OSError("away")

    handler = Switch()
    app = lab.start(
        handler,
        retry=FOR_EVER,
        on_failure=ehkafka.DeadLetter(refuse),
        on_parked_full="dead_letter",
        backlog_records_max=10,
        **SMALL,
    )
    lab.produce("bad " * 22)
    wait_until(lambda: events.of(ParkedBudgetFull))
    lab.produce("good " * 60)
    wait_until(lambda: handler.count(0) == 60)
    assert app.snapshot().partitions[0].parked_records == 22
    with pytest.raises(ehkafka.errors.UnfinishedError, match="its dead letter is not acknowledged yet"):
        app.stop(timeout_s=0.2)


@pytest.mark.parametrize("in_time", [True, False])
def test_a_stop_waits_for_the_letters_of_a_diverted_key_within_its_deadline(lab: Any, in_time: bool) -> None:
    """Else those on their way would be written again after the next start; what is left is named."""
    safe: list[int] = []
    gate = threading.Event()

    def save(letter: Any) -> None:
        if safe:
            assert gate.wait(30.0)
        safe.append(letter.offset)

    lab.produce("bad " * 30)
    policy, options = ehkafka.DeadLetter(save), {**SMALL, "on_parked_full": "dead_letter"}
    app = lab.start(Switch(), retry=FOR_EVER, on_failure=policy, **options)
    wait_until(lambda: len(safe) == 1)
    if in_time:
        stopping = threading.Thread(target=lambda: app.stop(drain="all"))
        stopping.start()
        must_stay(stopping.is_alive)
        gate.set()
        stopping.join(20.0)
        assert safe == list(range(30))
        assert lab.committed() == 30
    else:
        with pytest.raises(
            ehkafka.errors.UnfinishedError,
            match=r"t\[0\]@1 key bad \(its dead letter is not acknowledged yet",
        ):
            app.stop(timeout_s=0.2)
        gate.set()
        assert lab.committed() == 1


def test_stop_ends_the_app_and_names_the_key(lab: Any) -> None:
    """Nothing of what was parked is committed."""
    app = lab.start(Switch(), retry=FOR_EVER, on_parked_full="stop", **SMALL)
    lab.produce("good " + "bad " * 30)
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\] has .* key bad has the most")
    assert lab.committed() in (None, 0, 1)


def test_a_key_that_is_tried_only_pauses_its_partition(lab: Any) -> None:
    """Its attempt may end well, as this one; if it fails, the app is stopped then."""
    calls, may_end = [], threading.Event()

    def handler(record: Any) -> None:
        calls.append(record.offset())
        if len(calls) == 1:
            raise ValueError("poison")
        assert may_end.wait(30)

    app = lab.start(handler, retry=FOR_EVER, on_parked_full="stop", **SMALL)
    lab.produce("hot " * 10)
    wait_until(lambda: len(calls) == 2)
    lab.produce("hot " * 30)
    wait_until(lambda: paused(app) == [0])
    may_end.set()
    wait_until(lambda: lab.committed() == 40)
    assert calls == [0, *range(40)]
