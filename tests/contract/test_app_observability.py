"""What an app shows: snapshots, health, counters, events and log lines that name where."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import AppStarted, AppStopped, AppStopping, PartitionAssigned, PartitionRevoked

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of the time for 100,000 look-ups in a dict, measured in the same moment: machines differ, also by the hour.
# A look took 3.1 times as long, the longest hold of a lock 0.18 times.
LOOK_MAX, HOLD_MAX = 4.0, 0.3


def test_a_snapshot_names_what_holds_the_commit_back(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Lag, backlog, watermark, committed and the oldest unfinished record of a partition, all at once."""
    gate = recorder.block(b"slow")
    lab.produce("a b slow c slow d")
    app = lab.app(recorder)
    app.start()
    wait_for(lambda: recorder.count == 4)
    wait_for(lambda: app.snapshot().partitions[0].committed == 2)
    wait_for(lambda: app.snapshot().lag_records is not None)
    (partition,) = app.snapshot().partitions
    assert (partition.watermark, partition.committed) == (2, 2)
    # Two values of one byte, and the key twice.
    assert (partition.backlog_records, partition.backlog_bytes, partition.lanes) == (2, 2 + 2 * 4, 1)
    assert (partition.received_records, partition.finished_records) == (6, 4)
    assert (partition.lag_records, partition.paused, partition.epoch) == (2, False, 1)
    assert (partition.oldest.offset, partition.oldest.key, partition.oldest.state) == (2, "slow", "running")
    assert 0.0 <= partition.oldest.age_s < 15.0
    gate.set()
    wait_for(lambda: app.snapshot().lag_records == 0)
    assert app.snapshot().partitions[0].oldest is None
    app.stop()


def test_a_snapshot_is_immutable_and_taken_from_any_state(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Before the start, while running, after the stop: state and health say which."""
    app = lab.app(recorder)
    assert (app.snapshot().state, app.health().reasons) == ("new", ("The app is new.",))
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    snapshot = app.snapshot()
    assert (snapshot.state, snapshot.group) == ("running", "g")
    with pytest.raises(dataclasses.FrozenInstanceError):
        snapshot.state = "stopped"
    snapshot.counters["AppStarted"] = 7  # a copy of its own
    assert app.snapshot().counters["AppStarted"] == 1
    assert app.health()
    app.stop()
    assert app.snapshot().state == "stopped"
    assert app.health().reasons == ("The app is stopped.",)


def test_events_tell_a_life_in_order(lab: Any, recorder: Any, events: Any, wait_for: Any) -> None:
    """Started, assigned, stopping, given back with what was committed, stopped with its exit code."""
    lab.produce("a b c")
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 3)
    app.stop()
    life = [AppStarted, PartitionAssigned, AppStopping, PartitionRevoked, AppStopped]
    assert [type(event) for event in events if type(event) in life] == life
    (revoked,) = events.of(PartitionRevoked)
    assert (revoked.next_offset, revoked.returned_records, revoked.reason) == (3, 0, "stopped")
    assert events.of(AppStopped)[0].exit_code == 0


def test_counters_agree_with_the_events(lab: Any, recorder: Any, events: Any, wait_for: Any) -> None:
    """One count for each kind of event, whether anybody listens or not."""
    lab.produce("a", topic="t4")
    app = lab.app(recorder, "t4")
    app.add_hook(events)
    app.start()
    wait_for(lambda: len(app.snapshot().partitions) == 4)
    app.stop()
    counters = app.snapshot().counters
    for kind in (AppStarted, PartitionAssigned, PartitionRevoked, AppStopped):
        assert counters[kind.__name__] == len(events.of(kind))
    assert counters["PartitionAssigned"] == 4


def test_a_failing_handler_is_logged_with_place_key_and_decision(
    lab: Any, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One line at ERROR, without the record's value."""
    recorder.fail_at(0)
    lab.produce("customer-7", value=b"a secret value")
    app = lab.app(recorder)
    with caplog.at_level(logging.INFO, logger="ehkafka"):
        app.start()
        assert app.wait(10.0)
        with pytest.raises(Exception, match="customer-7"):
            app.stop()
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "t[0]@0" in line
    assert "customer-7" in line
    assert "the app stops" in line
    assert "secret" not in caplog.text


def test_a_snapshot_of_a_large_backlog_does_not_hold_the_handlers_up(lab: Any, wait_for: Any) -> None:
    """Thousands of live lanes and snapshots without a pause: records go on being handled."""
    recorder = lab.recorder()
    gate = recorder.block(b"slow")
    lab.produce("slow " + " ".join(f"k{n}" for n in range(5_000)))
    app = lab.app(recorder, workers=2)
    app.start()
    wait_for(lambda: recorder.started)
    began_s = time.monotonic()
    while recorder.count < 5_000:
        app.snapshot()
        assert time.monotonic() - began_s < 10.0
    gate.set()
    wait_for(lambda: recorder.count == 5_001)
    app.stop()


def unit_s() -> float:
    """Return the thread's own time for a fixed work."""
    known, began_s = dict.fromkeys(range(1_000)), time.thread_time()
    for number in range(100_000):
        known.get(number % 1_000)
    return time.thread_time() - began_s


@pytest.mark.parametrize(("workers", "keys"), [(5_000, 5_000), (8, 1_000)], ids=["running", "waiting"])
def test_a_snapshot_of_many_partitions_holds_nobody_up(
    embedded_broker_factory: Any, wait_for: Any, workers: int, keys: int
) -> None:
    """Of 500 partitions with thousands of keys: the own time of a look and of a hold of a lock."""
    done = asyncio.Event()

    async def handle(_record: Any) -> None:
        await done.wait()

    broker = embedded_broker_factory({"many": 500})
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    app.handler("many", workers=workers)(handle)
    for partition in range(500):
        broker.produce("many", [(f"k{number}".encode(), b"x") for number in range(10)], partition=partition)
    try:
        app.start()
        wait_for(lambda: app.snapshot().lanes >= keys)
        wait_for(lambda: sum(one.in_flight_records for one in app.snapshot().partitions) == workers)
        (route,) = app._runtime.routes
        holds_s: list[float] = []
        looks_s, longest_s, units_s = [], [], []
        locked = route.hub.locked

        @contextlib.contextmanager
        def timed(**options: Any) -> Iterator[Any]:
            with locked(**options) as inboxes:
                began_s = time.thread_time()
                yield inboxes
                holds_s.append(time.thread_time() - began_s)

        route.hub.locked = timed
        for _ in range(20):
            holds_s.clear()
            began_s = time.thread_time()
            snapshot = app.snapshot()
            looks_s.append(time.thread_time() - began_s)
            longest_s.append(max(holds_s))
            units_s.append(unit_s())
        assert len(snapshot.partitions) == 500
        assert snapshot.lanes >= keys
        assert sum(one.in_flight_records for one in snapshot.partitions) == workers
        assert min(looks_s) < LOOK_MAX * min(units_s)
        assert min(longest_s) < HOLD_MAX * min(units_s)
    finally:
        with contextlib.suppress(ehkafka.errors.UnfinishedError):
            app.stop(drain=False, timeout_s=0.5)
