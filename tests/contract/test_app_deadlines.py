"""Handlers that pass their deadline, and what health says of old, retried and held records."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import AttemptOverdue, RecordRetried, RecordsLeft
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from tests.contract.kinds import Stage


def test_a_thread_past_its_deadline_is_reported_once_and_health_names_it(
    lab: Any, events: Any, recorder: Any
) -> None:
    """With its stack; the lane is held, other keys go on; what it does late counts."""
    gate = recorder.block(b"slow")
    lab.produce("slow slow a b")
    app = lab.start(recorder, workers=4, deadline_s=0.2)
    wait_until(lambda: recorder.started)
    # Health needs no look of the poll thread: it is red as soon as the deadline has passed.
    wait_until(lambda: not app.health(), timeout_s=0.5)
    (attempt,) = app.snapshot().overdue
    assert (attempt.handler, attempt.offset, attempt.key, attempt.attempt) == ("Recorder", 0, "slow", 1)
    (overdue,) = wait_until(lambda: events.of(AttemptOverdue))
    assert (overdue.partition, overdue.offset, overdue.key) == (("t", 0), 0, "slow")
    assert (overdue.attempt, overdue.handler, overdue.deadline_s) == (1, "Recorder", 0.2)
    assert overdue.running_s >= 0.2
    assert "gate.wait(" in overdue.stack
    assert overdue.stack.splitlines()[0].endswith("in __call__"), "the user's own line comes first"
    (reason,) = app.health().reasons
    assert reason.startswith("t[0]@0, key slow: attempt 1 has run for ")
    assert "in handler 'Recorder' (deadline_s=0.2)" in reason
    assert "ehkafka-Recorder-" in reason
    must_stay(lambda: recorder.keys.count(b"slow") == 1 and lab.committed() in (None, 0), for_s=0.8)
    gate.set()
    wait_until(lambda: lab.committed() == 4)
    assert app.health().ok
    assert len(events.of(AttemptOverdue)) == 1


def test_a_late_failure_is_a_failed_attempt_like_any_other(lab: Any, events: Any) -> None:
    """The outcome of a thread that comes back counts normally, and each attempt has its own deadline."""
    gates = [threading.Event(), threading.Event()]

    def handle(record: Any) -> None:
        if record.attempt <= 2:
            assert gates[record.attempt - 1].wait(30.0)
            raise ValueError("late")

    lab.produce("a")
    lab.start(lab.recorder(handle), deadline_s=0.05, retry=ehkafka.Retry(attempts=3, first_s=0.01))
    for number, gate in enumerate(gates, 1):
        wait_until(lambda number=number: len(events.of(AttemptOverdue)) == number)
        gate.set()
    wait_until(lambda: lab.committed() == 1)
    assert [event.attempt for event in events.of(AttemptOverdue)] == [1, 2]


@pytest.mark.parametrize("stage", ["tasks", "callers_loop"], indirect=True)
def test_a_coroutine_past_its_deadline_is_cancelled_and_the_attempt_fails(stage: Stage, events: Any) -> None:
    """With a TimeoutError, which the retry policy takes, on whichever loop it runs."""
    stage.produce(("slow", "sleep 60"), ("slow", ""), ("a", ""))
    retry = ehkafka.Retry(attempts=2, first_s=0.01, on=TimeoutError)
    stage.start(deadline_s=0.1, retry=retry, on_failure=ehkafka.Skip())
    wait_until(lambda: stage.lab.committed() == 3)
    assert [line.word for line in stage.lines(key="slow")][:4] == ["start", "raise", "start", "raise"]
    assert [("TimeoutError" in event.error, event.offset) for event in events.of(RecordRetried)] == [
        (True, 0)
    ]


def test_a_retried_record_shows_its_last_error_once_it_is_too_old(lab: Any) -> None:
    """Topic, partition, offset, key, attempts, last error; a retry before its limit is no worry."""
    ok_while_young: list[bool] = []

    def work(record: Any) -> None:
        if record.key() == b"bad":
            ok_while_young.append(app.health().ok)
            raise ValueError("no luck today")

    app = lab.start(
        lab.recorder(work), retry=ehkafka.Retry(attempts=None, first_s=0.1, max_s=0.1), stuck_s=1.0
    )
    lab.produce("a bad")  # not before: an app that starts is not healthy yet
    # One look for both: what a second one sees may be an attempt later.
    (reason,) = wait_until(lambda: app.health().reasons)
    assert re.match(r"t\[0\]@1, key bad has been unfinished for \d+ s \(", reason)
    assert "ValueError: no luck today" in reason
    assert all(ok_while_young[:3])
    assert len(ok_while_young) > 3
    oldest = app.snapshot().partitions[0].oldest
    assert oldest.last_error == "ValueError: no luck today"
    assert oldest.attempts >= 3
    app.stop(drain=False)


def test_the_error_of_a_running_retry_shows_too(lab: Any, recorder: Any) -> None:
    """While attempt 2 runs, the picture says what attempt 1 died of; a fresh record says nothing."""
    blocked = recorder.block(lambda record: record.attempt == 2)

    def work(record: Any) -> None:
        if record.key() == b"bad" and record.attempt == 1:
            raise ValueError("no luck")

    recorder.work = work
    lab.produce("bad a")
    app = lab.start(recorder, retry=ehkafka.Retry(attempts=2, first_s=0.01))
    wait_until(lambda: any(record.attempt == 2 for record in recorder.records))
    oldest = app.snapshot().partitions[0].oldest
    assert (oldest.state, oldest.attempts, oldest.last_error) == ("running", 1, "ValueError: no luck")
    assert not oldest.is_on_hold
    blocked.set()
    wait_until(lambda: lab.committed() == 2)
    again = recorder.block(b"new")
    lab.produce("new")
    wait_until(lambda: recorder.keys[-1] == b"new")
    oldest = app.snapshot().partitions[0].oldest
    assert (oldest.attempts, oldest.last_error) == (0, "")
    again.set()


# --- rate limits ---


def test_a_drain_keeps_to_the_limit_and_ends_in_time(lab: Any, events: Any) -> None:
    """What the limit keeps back past the deadline was never started: left, and said so."""
    recorder = lab.recorder()
    lab.produce("a b c d e f g h i j")
    app = lab.start(recorder, rate_limit=4.0)
    wait_until(lambda: recorder.count >= 1)
    began_s = unstolen_s()
    app.stop(drain="all", timeout_s=0.6)
    assert unstolen_s() - began_s < 2.0
    assert 2 <= recorder.count <= 5
    assert [event.never_started_records for event in events.of(RecordsLeft)] == [10 - recorder.count]
    assert lab.committed() == recorder.count


def test_retries_count_and_other_handlers_do_not(lab: Any) -> None:
    """Each call takes a token; the limit is one handler's own."""
    limited, free = lab.recorder(), lab.recorder()
    limited.fail_at(0)
    lab.produce("a b c d")
    lab.produce("a " * 50, topic="u")
    app = lab.app()
    app.handler("t", rate_limit=10.0, retry=ehkafka.Retry(attempts=3, first_s=0.0), workers=4)(limited)
    app.handler("u", order_by=ehkafka.unordered)(free)
    limited.work, failing = None, limited.work

    def first_twice(record: Any) -> None:
        if record.attempt < 3:
            failing(record)

    limited.work = first_twice
    began_s = time.monotonic()
    app.start()
    wait_until(lambda: free.count == 50)
    wait_until(lambda: limited.count == 4)
    took_s = time.monotonic() - began_s
    app.stop()
    assert len(limited.started) == 6
    assert took_s >= 5 / 10.0 - 0.01


def test_waiting_for_the_limit_is_no_stuck_work(lab: Any, events: Any) -> None:
    """Slowness that was asked for is not reported; the lanes wait for more than `stuck_s`."""
    from ehkafka.events import StuckReport  # noqa: PLC0415 - used here alone

    recorder = lab.recorder()
    lab.produce("a b c")
    app = lab.start(recorder, rate_limit=0.8, stuck_s=0.4)
    wait_until(lambda: recorder.count == 2)
    assert not events.of(StuckReport)
    app.stop(drain=False)
