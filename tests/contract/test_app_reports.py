"""What a run says of itself: a line for each handler once in a while, and everything when asked."""

from __future__ import annotations

import signal
from typing import Any

import ehkafka
from ehkafka.events import HandlerReport, StateReport
from tests.kit.waiting import must_stay, wait_until


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
        app.log_state("somebody asked")
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


def test_an_app_in_another_frameworks_hands_takes_no_signal(lab: Any, recorder: Any) -> None:
    """`start` leaves all of them as they are."""
    numbers = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    with lab.app(recorder):
        assert [signal.getsignal(number) for number in numbers] == before
