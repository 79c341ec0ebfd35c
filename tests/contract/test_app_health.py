"""Dead threads, stuck work and old records: health turns red and says which."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import AttemptOverdue, HandlerReport, StateReport, StuckReport
from ehkafka.intake.membership import Membership
from tests.contract.conftest import ends_with
from tests.kit.inside import inside
from tests.kit.waiting import must_stay, wait_until


def test_a_dead_poll_thread_fails_the_app_visibly(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown error in the poll loop: health red, EngineError with its cause, exit code 70."""
    app = lab.start(recorder)
    lab.produce("a")
    wait_until(lambda: lab.committed() == 1)

    def broken(_consumer: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(inside(app).loop, "_check_slowly", broken)
    assert app.wait(10.0)
    assert not app.health()
    assert "out of luck" in app.health().reasons[0]
    with pytest.raises(ehkafka.errors.EngineError, match="poll thread failed") as caught:
        app.stop()
    assert caught.value.exit_code == 70
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_failing_rebalance_callback_fails_the_app_visibly(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception must neither vanish inside librdkafka nor drop its batch: EngineError."""
    app = lab.app(recorder)
    escaped: list[BaseException] = []
    on_assign = Membership.on_assign

    def broken(*_arguments: Any) -> None:
        raise RuntimeError("no epoch")

    def called_back(*arguments: Any) -> None:
        try:
            on_assign(*arguments)
        except BaseException as error:
            escaped.append(error)
            raise

    monkeypatch.setattr("ehkafka.intake.owned.OwnedPartitions.begin", broken)
    monkeypatch.setattr(Membership, "on_assign", called_back)
    app.start()
    ends_with(app, ehkafka.errors.EngineError, "no epoch")
    assert escaped == []


def test_a_worker_that_dies_of_an_engine_error_fails_the_app_visibly(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect below the handler must not leave a pool that silently shrank."""
    lab.judged = False
    app = lab.start(recorder)
    wait_until(lambda: app.snapshot().partitions)
    hub = inside(app).hub

    def broken(*_arguments: Any) -> None:
        raise RuntimeError("broken bookkeeping")

    monkeypatch.setattr(threading, "excepthook", lambda _hooked: None)
    monkeypatch.setattr(hub, "note_idle", broken)
    lab.produce("a")
    ends_with(app, ehkafka.errors.EngineError, "broken bookkeeping")


def test_a_call_within_its_deadline_is_not_stuck(lab: Any, recorder: Any) -> None:
    """Until then its handler is slow, however short `stuck_s` is."""
    gate = recorder.block(b"slow")
    lab.produce("slow")
    app = lab.start(recorder, stuck_s=0.1, deadline_s=30.0)
    wait_until(lambda: recorder.started)
    must_stay(lambda: app.health().ok, for_s=0.4)
    gate.set()


def test_no_progress_is_reported_with_the_workers_stacks(lab: Any, events: Any, recorder: Any) -> None:
    """Once, with the running record and the line of code where its worker stands."""
    gate = recorder.block(b"slow")
    lab.produce("slow slow")
    app = lab.start(recorder, stuck_s=0.4, workers=8)
    (report,) = wait_until(lambda: events.of(StuckReport))
    assert report.running == ("t[0]@0 key slow",)
    assert "gate.wait(" in report.stacks
    assert report.stacks.count("ehkafka-Recorder-") == 1, report.stacks  # not seven waits for work
    assert report.idle_s >= 0.4
    gate.set()
    wait_until(lambda: recorder.count == 2)
    app.stop()
    assert len(events.of(StuckReport)) == 1


def test_a_member_that_owns_nothing_is_a_healthy_standby(lab: Any, recorder: Any) -> None:
    """Two members, one partition: one of them says that it is a standby, and its lag is 0."""
    apps = [lab.app(recorder) for _ in range(2)]
    for app in apps:
        app.start()
    # Both are in: before, the partition may still change hands.
    seen = [(0, True), (1, False)]
    wait_until(
        lambda: sorted((len(s.partitions), s.is_standby) for s in (a.snapshot() for a in apps)) == seen
    )
    (standby,) = [app for app in apps if app.snapshot().is_standby]
    health = standby.health()
    assert health.ok
    assert health.notes[0].startswith("standby")
    assert standby.snapshot().lag_records == 0


def test_a_call_past_its_deadline_shows_its_stack_once(lab: Any, events: Any, recorder: Any) -> None:
    """At its deadline; the report that nothing finishes names the record, and repeats nothing."""
    gate = recorder.block(b"slow")
    lab.produce("slow slow")
    lab.start(recorder, stuck_s=1.0, deadline_s=0.1)
    (report,) = wait_until(lambda: events.of(StuckReport))
    (overdue,) = events.of(AttemptOverdue)
    assert "gate.wait(" in overdue.stack
    assert (report.running, report.stacks) == (("t[0]@0 key slow",), "")
    assert report.sentence().endswith("Earlier log lines show where the calls wait.")
    gate.set()


# --- reports ---


def test_each_handler_has_its_line_also_while_it_is_idle(lab: Any, recorder: Any, events: Any) -> None:
    """Rate, lag, and what waits; a handler without a partition says so."""
    recorder.fail_at(2)
    lab.produce("a b poison c")
    app = lab.app(recorder, on_failure=ehkafka.Hold(), report_interval_s=0.5)
    other = lab.recorder()
    other.__name__ = "other"
    app.handler("t4")(other)
    app.start()

    def last(topic: str) -> Any:
        return next((one for one in reversed(events.of(HandlerReport)) if one.topics == (topic,)), None)

    wait_until(
        lambda: last("t") and last("t4") and last("t").lag_records == 1 and last("t4").lag_records == 0
    )
    held, idle = last("t"), last("t4")
    assert (held.handler, held.partitions, held.waiting_keys) == ("Recorder", 1, 1)
    assert held.oldest_s is not None
    assert (idle.handler, idle.partitions, idle.waiting_keys, idle.oldest_s) == ("other", 4, 0, None)
    assert max(one.records_per_s for one in events.of(HandlerReport)) > 0
    wait_until(lambda: last("t").records_per_s == 0)
    assert "t (Recorder): 0 records/s, lag 1, oldest " in last("t").sentence()
    assert last("t4").sentence() == "t4 (other): 0 records/s, lag 0."


def test_it_is_silent_where_no_line_is_wanted(lab: Any, recorder: Any, events: Any) -> None:
    """With an interval of 0; by default it is a minute."""
    app = lab.app(recorder, report_interval_s=0)
    lab.produce("a")
    app.start()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert events.of(HandlerReport) == []
    assert ehkafka.settings.Settings(group="g", start="latest").report_interval_s == 60.0


def test_the_state_is_logged_with_the_stacks_of_busy_workers(lab: Any, recorder: Any, events: Any) -> None:
    """Each time that it is asked for, from any thread."""
    gate = recorder.block(b"slow")
    lab.produce("slow a a")
    app = lab.app(recorder, workers=2)
    app.log_state()
    app.start()
    wait_until(lambda: recorder.count == 2)
    for _ in range(2):
        app.log_state("a test asked")
    wait_until(lambda: len(events.of(StateReport)) == 2)
    state = events.of(StateReport)[0]
    assert (state.state, state.partitions, state.backlog_records, state.busy_workers) == ("running", 1, 1, 1)
    assert "oldest @0 key slow" in state.lines
    assert "gate.wait" in state.stacks
    assert state.attachment().index("oldest") < state.attachment().index("gate.wait")
    gate.set()


def test_a_signal_logs_the_state_while_a_handler_hangs(program: Any, lab: Any) -> None:
    """The signal's handler puts down a note and no more; the run goes on, and a stop works as ever."""
    lab.produce("a b c")
    running = program(
        """
        import logging
        logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")

        @app.handler("t")
        def handle(record):
            say("HANDLED", record.offset())
            while record.offset() == 1 and not os.path.exists(os.environ["BROKER"] + ".go"):
                time.sleep(0.01)

        run()
    """,
        stop_s=0.5,
    )
    wait_until(lambda: running.printed("HANDLED 1"))

    def states() -> list[str]:
        return [line for line in running.lines if "State (SIGUSR1): running" in line]

    for times in (1, 2):
        running.signal(signal.SIGUSR1)
        wait_until(lambda times=times: len(states()) == times)
        must_stay(lambda times=times: len(states()) == times, for_s=1.2)
    assert any("oldest @1 key b" in line for line in running.lines)
    wait_until(lambda: running.printed("in handle"))
    running.signal(signal.SIGTERM)
    assert running.wait() == 4


def test_a_program_with_a_handler_of_its_own_keeps_it(program: Any) -> None:
    """And has its way with the signal."""
    running = program("""
        signal.signal(signal.SIGUSR1, lambda *_: say("MINE"))
        app.handler("t")(lambda record: None)
        app.on_assigned(lambda partition: say("ASSIGNED"))
        run()
    """)
    wait_until(lambda: running.printed("ASSIGNED"))
    running.signal(signal.SIGUSR1)
    wait_until(lambda: running.printed("MINE"))
    running.signal(signal.SIGTERM)
    assert running.wait() == 0
