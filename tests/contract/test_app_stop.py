"""What a stop finishes, what it leaves, and how it says so: `drain=` in its three ways, and exit codes."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import AppStopped, AppStopping, PartitionLost, RecordRetried, RecordsLeft
from ehkafka.progress.committer import Committer
from ehkafka.testing import ApiKey
from tests.kit.inside import inside
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable


def stopping(app: Any, **options: Any) -> threading.Thread:
    """Stop an app on a thread of its own, and return that once the stop has begun."""
    thread = threading.Thread(target=lambda: app.stop(**options))
    thread.start()
    return thread


def test_l1b_a_stop_ends_what_is_started_and_what_lies_below_it(lab: Any, events: Any, wait_for: Any) -> None:
    """The untouched ones are left, in one line; a restart repeats nothing, exit code 0."""
    recorder = lab.recorder()
    gate = recorder.block(lambda record: record.offset() in (0, 3))
    lab.produce("a a b c")
    app = lab.app(recorder, workers=2, order_by=lambda record: record.key()[:1])
    app.add_hook(events)
    app.start()
    # 0 runs and 1 waits behind it, 2 has run, 3 runs; so 4 waits.
    wait_for(lambda: recorder.running["all"] == 2)
    lab.produce("d")
    wait_for(lambda: app.snapshot().received_records == 5)
    thread = stopping(app)
    wait_for(lambda: events.of(AppStopping))
    gate.set()
    thread.join()
    assert sorted(recorder.offsets()) == [0, 1, 2, 3]
    assert lab.committed() == 4
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.waiting_keys, left.repeated_without_metadata) == (1, 0, 0)
    assert [(event.exit_code, event.returned_records) for event in events.of(AppStopped)] == [(0, 1)]

    again = lab.recorder()
    app = lab.app(again)
    app.start()
    wait_for(lambda: again.count == 1)
    app.stop()
    assert again.offsets() == [4]


def test_a_retry_that_comes_due_during_the_last_commit_is_not_started(
    lab: Any, events: Any, wait_for: Any
) -> None:
    """A pending retry is not waited for, so it must not begin either: it would have no outcome."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b")
    app = lab.app(recorder, retry=ehkafka.Retry(attempts=9, first_s=0.3, jitter=0), commit_interval_s=60.0)
    app.add_hook(events)
    app.start()
    wait_for(lambda: app.snapshot().finished_records == 2 and events.of(RecordRetried))
    recorder.block(lambda record: record.offset() == 0)
    lab.broker.delay_next(ApiKey.OFFSET_COMMIT, 1.0)
    app.stop()
    assert recorder.offsets().count(0) == 1
    (left,) = events.of(RecordsLeft)
    assert left.waiting_keys == 1
    assert [event.exit_code for event in events.of(AppStopped)] == [0]


def test_a_stop_without_partitions_does_not_wait_for_an_old_commit(
    lab: Any, events: Any, wait_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost cannot be committed any more, whether the broker answers the last try or not."""
    lab.produce("a b")
    app = lab.app(lab.recorder())
    app.add_hook(events)
    # A client whose broker is away behind a proxy says nothing of a commit for minutes.
    monkeypatch.setattr(Committer, "on_commit", lambda *_: None)
    # All later answers of the coordinator wait behind this one: the member's session ends.
    lab.broker.delay_next(ApiKey.OFFSET_COMMIT, 12.0)
    app.start()
    wait_for(lambda: events.of(PartitionLost))
    assert inside(app).ledger.in_flight
    began_s = time.monotonic()
    app.stop(timeout_s=60.0)
    assert time.monotonic() - began_s < 30.0
    # The client's own close waits for those answers, beside the app.
    wait_for(lambda: not any(one.name == "ehkafka-close" for one in threading.enumerate()))


def test_l1d_what_does_not_fit_is_left_and_what_is_finished_above_is_saved(
    lab: Any, events: Any, wait_for: Any
) -> None:
    """The estimate is longer than stop_s, so only what runs ends; a successor repeats nothing."""
    recorder = lab.recorder()
    gate = recorder.block(lambda record: record.offset() == 0)
    # Offset 0 runs, its key's nine wait behind it; the ten of other keys above them are finished.
    lab.produce(" ".join(["a"] * 10 + [f"k{number}" for number in range(10)]))
    app = lab.app(recorder, workers=2)
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count == 10)
    # So that 10 s of work lie below: the longest key's alone.
    inside(app).inboxes.balance.mean_s = 1.0
    thread = stopping(app, timeout_s=5.0)
    wait_for(lambda: app.snapshot().backlog_records == 1)
    gate.set()
    began_s = unstolen_s()
    thread.join()
    assert unstolen_s() - began_s < 2.0
    assert sorted(recorder.offsets()) == [0, *range(10, 20)]
    assert lab.committed() == 1
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.repeated_without_metadata) == (9, 10)
    assert [event.exit_code for event in events.of(AppStopped)] == [0]

    again = lab.recorder()
    app = lab.app(again)
    app.start()
    wait_for(lambda: again.count == 9)
    app.stop()
    assert again.offsets() == list(range(1, 10))


@pytest.mark.parametrize("policy", [ehkafka.Hold(), "retry"])
def test_l1c_a_record_that_waits_below_is_not_waited_for(
    lab: Any, events: Any, wait_for: Any, policy: Any
) -> None:
    """It is named, what is finished above it is saved, nothing is repeated, exit code 0."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b c bad")
    options: dict[str, Any] = {"on_failure": policy}
    if policy == "retry":
        options = {"retry": ehkafka.Retry(attempts=5, first_s=60.0, max_s=60.0), "on_failure": ehkafka.Hold()}
    app = lab.app(recorder, **options)
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count == 3 and app.snapshot().parked_records == 2)
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 2.0
    assert lab.committed() in (None, 0)
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.waiting_keys, left.repeated_without_metadata) == (1, 1, 3)
    assert left.waiting[0].startswith("t[0]@0 key bad (")
    assert [event.exit_code for event in events.of(AppStopped)] == [0]

    again = lab.recorder()
    app = lab.app(again)
    app.start()
    wait_for(lambda: again.count == 2)
    app.stop()
    assert again.offsets() == [0, 4]


def test_finished_records_that_cannot_be_saved_are_counted_by_the_error(
    lab: Any, events: Any, wait_for: Any, metadata_room: Any
) -> None:
    """Without room in the commit, three finished records will be repeated: exit code 4."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b c bad")
    metadata_room(0)
    app = lab.app(recorder, on_failure=ehkafka.Hold())
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count == 3)
    with pytest.raises(
        ehkafka.errors.UnfinishedError, match=r"3 finished records of t\[0\] .* handled again"
    ):
        app.stop()
    assert [event.exit_code for event in events.of(AppStopped)] == [4]


def test_a_stop_with_nothing_left_says_nothing(lab: Any, events: Any, wait_for: Any) -> None:
    """The line is for what is left."""
    recorder = lab.recorder()
    lab.produce("a b")
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count == 2)
    app.stop()
    assert events.of(RecordsLeft) == []


@pytest.mark.parametrize(("drain", "committed"), [("started", 1), ("all", 3), ("running", 1), (True, 3)])
def test_the_settings_say_what_a_stop_without_a_word_finishes(
    lab: Any, wait_for: Any, drain: Any, committed: int
) -> None:
    """A signal's stop, a context manager's and `stop()` take it from there."""
    recorder = lab.recorder()
    gate = recorder.block(b"a")
    lab.produce("a b c")
    app = lab.app(recorder, workers=1, drain=drain)
    app.start()
    wait_for(lambda: app.snapshot().received_records == 3 and recorder.started)
    thread = stopping(app)
    wait_for(lambda: app.state == "stopping")
    time.sleep(0.05)
    gate.set()
    thread.join()
    assert lab.committed() == committed


@pytest.mark.parametrize("drain", ["most", 1, None, ""])
def test_a_drain_that_does_not_exist_is_refused(lab: Any, drain: Any) -> None:
    """The message names those that do."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match="'started', 'all' or 'running'"):
        lab.app(drain=drain)
    if drain is not None:
        app = lab.app(lab.recorder())
        app.start()
        with pytest.raises(ehkafka.errors.ConfigurationError, match="'started', 'all' or 'running'"):
            app.stop(drain=drain)
        assert app.state == "running"


def batch(app: Any, work: Callable[[int], None]) -> None:
    """Register a batch handler."""

    @app.batch_handler("t", batch_records_max=4, wait_s_max=0.01, workers=2)
    def handle(records: ehkafka.Batch) -> None:
        for record in records:
            work(record.offset())


def tasks(app: Any, work: Callable[[int], None]) -> None:
    """Register a coroutine."""

    @app.handler("t", workers=2)
    async def handle(record: Any) -> None:
        await asyncio.sleep(0.02)
        work(record.offset())


def threads(app: Any, work: Callable[[int], None]) -> None:
    """Register a function."""

    @app.handler("t", workers=2)
    def handle(record: Any) -> None:
        time.sleep(0.02)
        work(record.offset())


@pytest.mark.parametrize("register", [threads, tasks, batch])
def test_every_kind_of_worker_leaves_no_hole_and_learns_how_long_a_record_takes(
    lab: Any, wait_for: Any, register: Callable[..., None]
) -> None:
    """Stopped in the middle of a backlog of interleaved keys, it commits all that it has handled."""
    handled: list[int] = []

    def work(offset: int) -> None:
        if register is batch:
            time.sleep(0.02)
        handled.append(offset)

    lab.produce(" ".join(f"k{number % 5}" for number in range(400)))
    app = lab.app()
    register(app, work)
    app.start()
    wait_for(lambda: len(handled) > 30)
    app.stop()
    assert sorted(handled) == list(range(len(handled)))
    assert lab.committed() == len(handled)
    assert 0.01 < inside(app).inboxes.balance.mean_s < 1.0
