"""What a stop finishes, what it leaves, and how it says so.

A stop's drain for each kind of workers is in `test_kinds`.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import UnfinishedError
from ehkafka.events import (
    AppStopped,
    AppStopping,
    CommitFailed,
    PartitionLost,
    RecordRetried,
    RecordsLeft,
    UserCodeLeft,
)
from ehkafka.progress.committer import Committer
from ehkafka.testing import ApiKey
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def stopping(app: Any, **options: Any) -> Iterator[threading.Thread]:
    """Stop an app on a thread of its own, once that has begun; wait for its end."""
    thread = threading.Thread(target=lambda: app.stop(**options))
    thread.start()
    wait_until(lambda: app.state == "stopping")
    yield thread
    thread.join(20.0)
    assert not thread.is_alive()


def handled_by_the_next(lab: Any, count: int) -> list[int]:
    """Return what a successor handles."""
    again = lab.recorder()
    app = lab.start(again)
    wait_until(lambda: again.count == count)
    app.stop()
    return again.offsets()


def exit_codes(events: Any) -> list[int]:
    """Return those that were reported."""
    return [event.exit_code for event in events.of(AppStopped)]


# --- what is finished, what is left ---


def test_l1b_a_stop_ends_what_is_started_and_what_lies_below_it(lab: Any, events: Any) -> None:
    """The untouched ones are left, in one line; a restart repeats nothing, exit code 0."""
    recorder = lab.recorder()
    gate = recorder.block(lambda record: record.offset() in (0, 3))
    lab.produce("a a b c")
    app = lab.start(recorder, workers=2, order_by=lambda record: record.key()[:1])
    # 0 runs and 1 waits behind it, 2 has run, 3 runs; so 4 waits.
    wait_until(lambda: recorder.running["all"] == 2)
    lab.produce("d")
    wait_until(lambda: app.snapshot().received_records == 5)
    with stopping(app, timeout_s=17.0):
        wait_until(lambda: events.of(AppStopping))
        gate.set()
    assert [event.deadline_s for event in events.of(AppStopping)] == [17.0]  # as it was asked for
    assert sorted(recorder.offsets()) == [0, 1, 2, 3]
    assert lab.committed() == 4
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.waiting_keys, left.repeated_without_metadata) == (1, 0, 0)
    assert [(event.exit_code, event.returned_records) for event in events.of(AppStopped)] == [(0, 1)]
    assert handled_by_the_next(lab, 1) == [4]


def test_a_retry_that_comes_due_during_the_last_commit_is_not_started(lab: Any, events: Any) -> None:
    """A pending retry is not waited for, so it must not begin either: it would have no outcome."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b")
    app = lab.start(recorder, retry=ehkafka.Retry(attempts=9, first_s=0.3, jitter=0), commit_interval_s=60.0)
    wait_until(lambda: app.snapshot().finished_records == 2 and events.of(RecordRetried))
    recorder.block(lambda record: record.offset() == 0)
    lab.broker.delay_next(ApiKey.OFFSET_COMMIT, 1.0)
    app.stop()
    assert recorder.offsets().count(0) == 1
    assert [left.waiting_keys for left in events.of(RecordsLeft)] == [1]
    assert exit_codes(events) == [0]


def test_a_stop_without_partitions_does_not_wait_for_an_old_commit(
    lab: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost cannot be committed any more, whether the broker answers the last try or not."""
    lab.produce("a b")
    # A client whose broker is away behind a proxy says nothing of a commit for minutes.
    monkeypatch.setattr(Committer, "on_commit", lambda *_: None)
    # All later answers of the coordinator wait behind this one: the member's session ends.
    lab.broker.delay_next(ApiKey.OFFSET_COMMIT, 12.0)
    app = lab.start(lab.recorder())
    wait_until(lambda: events.of(PartitionLost))
    began_s = time.monotonic()
    app.stop(timeout_s=60.0)
    assert time.monotonic() - began_s < 30.0
    # The client's own close waits for those answers, apart from the app.
    wait_until(lambda: not any(one.name == "ehkafka-close" for one in threading.enumerate()))


def test_l1d_what_does_not_fit_is_left_and_what_is_finished_above_is_saved(lab: Any, events: Any) -> None:
    """The estimate is longer than stop_s, so only what runs ends; a successor repeats nothing."""
    recorder = lab.recorder()
    # Each record takes so long that a key's nine do not fit into the stop.
    recorder.work = lambda record: time.sleep(0.3)
    gate = recorder.block(lambda record: record.offset() == 0)
    # Offset 0 runs, its key's nine wait behind it; the ten of other keys above them are finished.
    lab.produce(" ".join(["a"] * 10 + [f"k{number}" for number in range(10)]))
    app = lab.start(recorder, workers=2)
    wait_until(lambda: recorder.count == 10)
    with stopping(app, timeout_s=1.5):
        wait_until(lambda: app.snapshot().backlog_records == 1)
        gate.set()
    assert sorted(recorder.offsets()) == [0, *range(10, 20)]
    assert lab.committed() == 1
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.repeated_without_metadata) == (9, 10)
    assert exit_codes(events) == [0]
    assert handled_by_the_next(lab, 9) == list(range(1, 10))


@pytest.mark.parametrize(
    "options",
    [{}, {"retry": ehkafka.Retry(attempts=5, first_s=60.0, max_s=60.0)}],
    ids=["held", "retried"],
)
def test_l1c_a_record_that_waits_below_is_not_waited_for(
    lab: Any, events: Any, options: dict[str, Any]
) -> None:
    """It is named, what is finished above it is saved, nothing is repeated, exit code 0."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b c bad")
    app = lab.start(recorder, on_failure=ehkafka.Hold(), **options)
    wait_until(lambda: recorder.count == 3 and app.snapshot().parked_records == 2)
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 2.0
    assert lab.committed() in (None, 0)
    (left,) = events.of(RecordsLeft)
    assert (left.never_started_records, left.waiting_keys, left.repeated_without_metadata) == (1, 1, 3)
    assert left.waiting[0].startswith("t[0]@0 key bad (")
    assert exit_codes(events) == [0]
    assert handled_by_the_next(lab, 2) == [0, 4]


def test_finished_records_that_cannot_be_saved_are_counted_by_the_error(
    lab: Any, events: Any, metadata_room: Any
) -> None:
    """Without room in the commit, three finished records will be repeated: exit code 4."""
    recorder = lab.recorder()
    recorder.fail_at(0)
    lab.produce("bad a b c bad")
    metadata_room(0)
    app = lab.start(recorder, on_failure=ehkafka.Hold())
    wait_until(lambda: recorder.count == 3)
    with pytest.raises(UnfinishedError, match=r"3 finished records of t\[0\] .* handled again"):
        app.stop()
    assert exit_codes(events) == [4]


@pytest.mark.parametrize("records", ["", "a b c"])
def test_an_idle_app_stops_within_a_second_and_leaves_nothing(
    lab: Any, recorder: Any, events: Any, records: str
) -> None:
    """With nothing to do; what no interval has committed is committed, and nothing is reported as left."""
    lab.produce(records)
    app = lab.start(recorder, commit_interval_s=60.0)
    wait_until(lambda: app.snapshot().partitions and recorder.count == len(records.split()))
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 1.0
    assert app.state == "stopped"
    assert lab.committed() == len(records.split())
    assert events.of(RecordsLeft) == []


@pytest.mark.parametrize(("drain", "committed"), [("started", 1), ("all", 3), ("running", 1), (True, 3)])
def test_the_settings_say_what_a_stop_without_a_word_finishes(lab: Any, drain: Any, committed: int) -> None:
    """A signal's stop, a context manager's and `stop()` take it from there."""
    recorder = lab.recorder()
    gate = recorder.block(b"a")
    lab.produce("a b c")
    app = lab.start(recorder, workers=1, drain=drain)
    wait_until(lambda: app.snapshot().received_records == 3 and recorder.started)
    with stopping(app):
        time.sleep(0.05)
        gate.set()
    assert lab.committed() == committed


# --- tear-downs, other stops ---


def test_on_stop_functions_run_all_though_one_of_them_raises(lab: Any, recorder: Any) -> None:
    """The other pools are closed too, and what was raised is raised."""
    seen: list[str] = []
    app = lab.app(recorder)
    app.on_stop(lambda: seen.append("first pool"))

    @app.on_stop
    def broken() -> None:
        raise ValueError("second pool")

    app.start()
    with pytest.raises(ValueError, match="second pool"):
        app.stop()
    assert seen == ["first pool"]
    assert app.state == "stopped"


def test_a_later_stop_waits_for_the_request_that_counts(lab: Any, recorder: Any) -> None:
    """The first request has 30 s: a second one with no time of its own waits for it all the same."""
    gate = recorder.block()
    lab.produce("a")
    app = lab.start(recorder, stop_s=30.0)
    wait_until(lambda: recorder.started)
    with stopping(app):
        second = threading.Thread(target=lambda: app.stop(timeout_s=0.0))
        second.start()
        second.join(0.5)
        assert second.is_alive()
        gate.set()
        second.join(10.0)
        assert not second.is_alive()
    assert lab.committed() == 1


@pytest.mark.parametrize("has_time", [True, False])
def test_a_tear_down_may_take_as_long_as_the_stop(
    lab: Any, recorder: Any, events: Any, *, has_time: bool
) -> None:
    """on_stop comes after it; at the deadline it is left behind and named."""
    seen: list[str] = []
    app = lab.app(recorder, workers=1, stop_s=20.0 if has_time else 0.2)
    opened = threading.Event()

    @app.on_worker_stop
    def close() -> None:
        assert opened.wait(20.0)
        seen.append("worker")

    app.on_stop(lambda: seen.append("app"))
    app.start()
    with stopping(app) as thread:
        thread.join(1.5)  # longer than what is left after a deadline
        assert thread.is_alive() is has_time
        opened.set()
    assert seen[0] == ("worker" if has_time else "app")
    left = [event.running for event in events.of(UserCodeLeft)]
    assert left == ([] if has_time else [("ehkafka-Recorder-0",)])


# --- the last commit ---


@pytest.mark.parametrize(
    ("codes", "has_time", "exit_code"),
    [
        ([KafkaError.REBALANCE_IN_PROGRESS], True, 0),
        ([KafkaError.UNKNOWN], True, 0),
        ([KafkaError.UNKNOWN_MEMBER_ID], False, 4),
        ([KafkaError.UNKNOWN] * 20, False, 4),
    ],
)
def test_a_last_commit_that_is_refused_is_tried_again_while_there_is_time(
    lab: Any, recorder: Any, events: Any, codes: list[int], has_time: bool, exit_code: int
) -> None:
    """Else what finished is handled again, so the stop names the partition and ends with code 4."""
    app = lab.start_without_commits(recorder)
    lab.produce("a b")
    wait_until(lambda: recorder.count == 2)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *codes)
    if has_time:
        app.stop(timeout_s=10.0)
        assert len(events.of(CommitFailed)) == 1
    else:
        words = rf"last commit of t\[0\] failed \({KafkaError(codes[0]).name()}"
        with pytest.raises(UnfinishedError, match=words) as caught:
            app.stop(timeout_s=0.7)
        assert caught.value.exit_code == 4
    assert lab.committed() == (2 if has_time else 0)
    assert exit_codes(events) == [exit_code]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_stop_without_records_complains_of_no_commit_that_is_of_no_use(lab: Any, start: Any) -> None:
    """The next run begins an empty log where this one did; without the commit `latest` would skip records."""
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.REBALANCE_IN_PROGRESS] * 200)
    app = lab.start(lab.recorder(), start=start)
    wait_until(lambda: app.snapshot().partitions)
    if start == "latest":
        with pytest.raises(UnfinishedError, match="REBALANCE_IN_PROGRESS"):
            app.stop(timeout_s=2.0)
        return
    began_s = time.monotonic()
    app.stop(timeout_s=10.0)
    assert time.monotonic() - began_s < 5.0


def test_no_request_on_its_way_may_take_the_last_commit_back(lab: Any, recorder: Any) -> None:
    """A commit that librdkafka sends again by itself ends before the last one starts."""
    gate = recorder.block(b"late")
    app = lab.start_without_commits(recorder, commit_every_records=1)
    lab.broker.track_requests()
    # librdkafka tells nothing of this refusal: it sends the request again after a while.
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    lab.produce("a late")
    wait_until(lambda: lab.broker.requests(ApiKey.OFFSET_COMMIT))
    gate.set()
    wait_until(lambda: recorder.count == 2)
    app.stop()
    assert lab.committed() == 2


def test_a_stop_while_the_broker_is_away_ends_within_its_deadline(lab: Any, recorder: Any) -> None:
    """The last commit gets no answer: the stop ends in its time and a second, and says so."""
    app = lab.start_without_commits(recorder)
    lab.produce("a b c")
    wait_until(lambda: recorder.count == 3)
    lab.broker.take_down()
    began_s = unstolen_s()
    with pytest.raises(UnfinishedError, match=r"last commit of t\[0\] failed \(_TIMED_OUT"):
        app.stop(timeout_s=1.0)
    took_s = unstolen_s() - began_s
    lab.broker.bring_up()  # lets a close end that was left behind
    assert took_s < 3.5
