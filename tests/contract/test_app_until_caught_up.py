"""`run(until="caught_up")`: what it waits for, what it does not wait for, and how it ends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import ThrottleEvent

import ehkafka
from ehkafka.events import AppCatchingUp, AppCaughtUp, AppStopped, PartitionAssigned
from ehkafka.intake import until_caught_up
from ehkafka.testing import ApiKey
from tests.contract.mirrored import commit
from tests.kit.events import Events
from tests.kit.inside import inside
from tests.kit.waiting import must_stay, wait_until

UNTIL = {"until": "caught_up", "settle_s": 5.0}


class Run:
    """A run on a thread of its own, which ends by itself; what it raised is kept."""

    def __init__(self, app: Any, **how: Any) -> None:
        self.error: BaseException | None = None
        self.took_s = 0.0
        self._thread = threading.Thread(target=self._run, args=(app, UNTIL | how), daemon=True)
        self._thread.start()

    def _run(self, app: Any, how: dict[str, Any]) -> None:
        began_s = time.monotonic()
        try:
            app.run(**how)
        except BaseException as error:
            self.error = error
        self.took_s = time.monotonic() - began_s

    @property
    def has_ended(self) -> bool:
        """Whether it is over."""
        return not self._thread.is_alive()

    def end(self, timeout_s: float = 30.0) -> BaseException | None:
        """Wait for its end; return what it raised."""
        self._thread.join(timeout_s)
        assert self.has_ended, f"it goes on after {timeout_s:g} s"
        return self.error


def test_an_empty_topic_is_caught_up_at_once(lab: Any, recorder: Any, events: Any) -> None:
    """Its end is its begin, which is committed: no record, no error."""
    app = lab.app(recorder, "t", "t4")
    assert Run(app).end() is None
    assert [(e.partitions, e.finished_records) for e in events.of(AppCaughtUp)] == [(5, 0)]
    assert [e.exit_code for e in events.of(AppStopped)] == [0]
    assert lab.committed() == 0


def test_a_backlog_is_handled_and_committed_before_the_end(lab: Any, recorder: Any, events: Any) -> None:
    """The commits are acknowledged when the run says so; its stop has nothing left to do."""
    for partition in range(4):
        lab.produce(" ".join(f"k{n}" for n in range(50)), topic="t4", partition=partition)
    app = lab.app(recorder, "t4", workers=8)
    committed: list[int | None] = []

    class OnEnd:
        def on_event(self, event: Any) -> None:
            if isinstance(event, AppCaughtUp):
                committed.extend(lab.committed(number, topic="t4") for number in range(4))

    app.add_hook(OnEnd())
    assert Run(app).end() is None
    assert recorder.count == 200
    assert committed == [50] * 4
    (done,) = events.of(AppCaughtUp)
    assert (done.partitions, done.finished_records, done.is_standby) == (4, 200, False)


def test_the_commit_is_not_waited_for_longer_than_it_takes(lab: Any, recorder: Any) -> None:
    """Whatever the interval: nothing but the commit is missing, so it is due."""
    lab.produce("a b c")
    assert Run(lab.app(recorder, commit_interval_s=600.0), settle_s=600.0).end(20.0) is None
    assert lab.committed() == 3


def test_records_produced_meanwhile_do_not_keep_the_run(lab: Any, recorder: Any) -> None:
    """The end is where the log ended when the partition came: who goes on producing is not followed."""
    lab.produce(" ".join("abcdefgh"))
    recorder.work = lambda record: lab.produce("another")
    app = lab.app(recorder, workers=4)
    assert Run(app).end() is None
    assert recorder.finished_offsets()[:8]
    assert set(range(8)) <= set(recorder.finished_offsets())
    assert lab.committed() >= 8


def test_a_held_key_fails_the_run_and_is_named(lab: Any, recorder: Any) -> None:
    """All else is done and committed by then; the error says which record, and why it waits."""
    recorder.fail_at(2)
    lab.produce("a b poison c poison")
    run = Run(lab.app(recorder, on_failure=ehkafka.Hold()), settle_s=1.0)
    error = run.end()
    assert isinstance(error, ehkafka.errors.UnfinishedError)
    assert error.exit_code == 4
    assert "t[0]@2 key poison (on hold: ValueError: no luck with 2)" in str(error)
    assert 1.0 <= run.took_s < 15.0
    assert sorted(recorder.finished_offsets()) == [0, 1, 3]
    assert lab.committed() == 2


def test_a_handler_that_takes_long_is_waited_for(lab: Any, recorder: Any) -> None:
    """`settle_s` is for what waits, not for what runs."""
    gate = recorder.block(b"slow")
    lab.produce("a slow b")
    run = Run(lab.app(recorder, workers=2), settle_s=0.5)
    wait_until(lambda: recorder.count == 2)
    must_stay(lambda: not run.has_ended, for_s=1.5)
    gate.set()
    assert run.end() is None
    assert lab.committed() == 3


@pytest.mark.parametrize("assignor", ["default", "cooperative-sticky"])
def test_a_standby_ends_after_a_while(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch, assignor: str
) -> None:
    """The only partition is another member's; the group stands still, and gives this one nothing."""
    owner = lab.start(recorder, assignor=assignor, unreachable_s=1.0)
    wait_until(lambda: owner.snapshot().partitions)
    made = until_caught_up.CatchingUp
    monkeypatch.setattr(until_caught_up, "CatchingUp", lambda settle_s: made(settle_s, standby_s=2.0))
    # Half of the times this one gets it: the order of the members' ids decides, and they are random.
    for _ in range(15):
        standby, events = lab.app(recorder, assignor=assignor, unreachable_s=1.0), Events()
        standby.add_hook(events)
        run = Run(standby)
        assert run.end() is None
        if not events.of(PartitionAssigned):
            break
        # The group gave it the partition: it had caught up with an empty log, and was no standby.
        wait_until(lambda: owner.snapshot().partitions)
    assert run.took_s >= 2.0
    assert [e.is_standby for e in events.of(AppCaughtUp)] == [True]
    assert owner.state == "running"


@pytest.mark.parametrize("policy", ["stop", "earliest"])
def test_a_commit_beyond_its_log_is_not_caught_up(lab: Any, recorder: Any, policy: str) -> None:
    """It belongs to another log: what is to be done then is done, and its records are handled."""
    lab.produce("a b c")
    commit(lab, 25)
    lab.broker.delay_next(ApiKey.FETCH, 1.5)  # its answer says so
    error = Run(lab.app(recorder, on_out_of_range=policy)).end()
    if policy == "stop":
        assert isinstance(error, ehkafka.errors.OffsetGapError)
    else:
        assert error is None
        assert recorder.finished_offsets() == [0, 1, 2]


def test_the_log_says_how_far_it_is(
    lab: Any, recorder: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every so many seconds: what is left, at which rate."""
    monkeypatch.setattr(until_caught_up, "REPORT_S", 0.4)
    gate = recorder.block(b"slow")
    lab.produce("a b slow c")
    app = lab.app(recorder, workers=1)
    run = Run(app)
    wait_until(lambda: any(one.left_records == 2 for one in events.of(AppCatchingUp)))
    assert any(one.records_per_s > 0 for one in events.of(AppCatchingUp))
    gate.set()
    assert run.end() is None


def test_a_stop_from_outside_ends_it_as_any_run(lab: Any, recorder: Any) -> None:
    """And the next start of the same app has no end of its own."""
    recorder.fail_at(0)
    lab.produce("a")
    app = lab.app(recorder, on_failure=ehkafka.Hold())
    run = Run(app, settle_s=600.0)
    wait_until(lambda: recorder.started)
    app.stop()
    assert run.end() is None
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    assert app.current_run.app.until is None


def test_a_partition_that_is_paused_by_hand_is_named(lab: Any, recorder: Any) -> None:
    """The records that were taken before are done."""
    gate = recorder.block(b"first")
    lab.produce("first", topic="t4")
    app = lab.app(recorder, "t4")
    run = Run(app, settle_s=3.5)
    wait_until(lambda: recorder.started)
    app.keys.pause_partition("t4/0")
    lab.produce("later", topic="t4")
    # As if both had been there at the start.
    ends = inside(app).context.begins.catch_up_ends
    ends.logs = {**ends.logs, ("t4", 0): ends.logs["t4", 0]._replace(end=2)}
    gate.set()
    error = run.end()
    assert isinstance(error, ehkafka.errors.UnfinishedError)
    assert "t4[0] (the partition is paused)" in str(error)
    assert recorder.finished_offsets(topic="t4") == [0]


def test_no_run_is_caught_up_by_silence_while_the_broker_throttles(lab: Any, recorder: Any) -> None:
    """Fetches come back empty from a log that goes on: it is not at its end, nor does anything wait."""
    lab.produce("a b c")
    app = lab.app(recorder)
    gate = recorder.block(b"a")
    run = Run(app, settle_s=0.5)
    wait_until(lambda: recorder.started)
    runtime = app.current_run
    ends = runtime.context.begins.catch_up_ends
    assert ends.logs["t", 0].end == 3
    # As if the log had more, of which throttled fetches bring nothing.
    ends.logs = {("t", 0): ends.logs["t", 0]._replace(end=5)}
    runtime.context.brokers.throttle.on_throttle(ThrottleEvent("broker", 1, 3.0))
    gate.set()
    wait_until(lambda: recorder.count == 3)
    must_stay(lambda: not run.has_ended, for_s=2.0)
    lab.produce("d e")
    assert run.end() is None
    assert lab.committed() == 5
