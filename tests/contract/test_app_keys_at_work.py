"""Keys by hand at bad moments: whatever is done whenever, order, commits and the policy's promises hold."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ActionRefusedError
from tests.contract.conftest import ALONE, refusal
from tests.kit.checker.history import MemoryHistory
from tests.kit.waiting import must_stay, wait_until


class SlowHistory(MemoryHistory):
    """Takes its time to write down that a record was skipped."""

    def finished(self, *what: Any) -> None:
        """Note an outcome, a skip late."""
        if what[-1] == "skipped":
            time.sleep(0.1)
        super().finished(*what)


def test_a_skip_is_in_the_history_before_the_next_record_starts(lab: Any, recorder: Any) -> None:
    """Else the next one of its key has overtaken it, for a reader of the history."""
    recorder.fail_at(0)
    history = SlowHistory()
    lab.histories.append(history)
    app = lab.start(recorder, history=history, on_failure=ehkafka.Hold())
    lab.produce("a a a")
    wait_until(lambda: app.keys.blocking() and app.keys.blocking()[0].status == "waiting: on hold")
    app.keys.skip("a")
    wait_until(lambda: lab.committed() == 3)


def test_a_retry_of_a_held_head_whose_key_is_paused_is_refused(held: Any, lab: Any, recorder: Any) -> None:
    """It could not start."""
    held.keys.pause("a")
    assert refusal(lambda: held.keys.retry("a")).reason == "paused"
    assert held.keys.blocking()[0].status == "waiting: on hold"
    held.keys.resume("a")
    recorder.work = None
    assert held.keys.retry("a").changed
    wait_until(lambda: lab.committed() == 4)


def test_a_stopped_handler_receives_nothing_when_a_pause_is_over(lab: Any, recorder: Any) -> None:
    """The pause of one of its partitions ends, the stop does not."""
    app = lab.start(recorder, consumer=ALONE)
    wait_until(lambda: app.snapshot().partitions)
    app.keys.pause_partition("t/0", for_s=0.2)
    app.keys.stop_handler("Recorder")
    lab.produce("a b")
    must_stay(lambda: app.snapshot().received_records == 0, for_s=1.5)
    app.keys.start_handler("Recorder")
    wait_until(lambda: lab.committed() == 2)


def test_a_paused_key_without_records_is_resumed_though_another_has_its_text(lab: Any, recorder: Any) -> None:
    """Only what is paused can be meant."""
    recorder.work = lambda _record: (_ for _ in ()).throw(ValueError("no"))
    app = lab.start(recorder, "t4", on_failure=ehkafka.Hold())
    lab.produce("a", topic="t4", partition=0)
    wait_until(lambda: len(app.keys.blocking()) == 1)
    app.keys.pause("a")
    app.keys.skip("a")
    lab.produce("a", topic="t4", partition=1)
    wait_until(lambda: [one.name for one in app.keys.blocking()] == ["t4/1@0"])
    assert app.keys.resume("a").changed
    recorder.work = None
    lab.produce("a", topic="t4", partition=0)
    wait_until(lambda: lab.committed(0, topic="t4") == 2)


@pytest.mark.parametrize("action", ["stop", "dead_letter"])
def test_what_is_paused_by_hand_is_no_reason_for_the_budgets_action(dead: Any, action: str) -> None:
    """It pauses its partition when the budget is full: no retry is given up, and the app goes on."""
    failing = threading.Event()

    def work(record: Any) -> None:
        if record.key() == b"poison" and not failing.is_set():
            raise ValueError("not yet")

    recorder = dead.recorder(work)
    app = dead.start(
        recorder,
        retry=ehkafka.Retry(attempts=10, first_s=600.0, max_s=600.0),
        on_failure=ehkafka.DeadLetter("dead"),
        parked_records_max=20,
        consume_records_max=5,
        on_parked_full=action,
    )
    dead.produce("poison a a")
    wait_until(lambda: recorder.count == 2)
    gate = recorder.block(b"a")
    dead.produce("a")
    wait_until(lambda: len(recorder.started) == 4)
    app.keys.pause("a")
    gate.set()
    dead.produce(" ".join("a" * 60))
    wait_until(lambda: app.snapshot().partitions[0].parked_records >= 20)
    must_stay(lambda: app.state == "running" and app.snapshot().dead_lettered_records == 0, for_s=1.0)
    app.keys.resume("a")
    failing.set()
    app.keys.retry("poison")
    wait_until(lambda: dead.committed() == 64)
    assert app.snapshot().dead_lettered_records == 0


def test_actions_that_wait_while_the_app_ends_are_answered(lab: Any, recorder: Any) -> None:
    """At once, in one sentence, and not when their time is over."""
    gate = recorder.block(b"a")
    app = lab.start(recorder, stop_s=1.0)
    lab.produce("a a")
    wait_until(lambda: recorder.started)
    answers: list[object] = []

    def ask() -> None:
        while True:
            began_s = time.monotonic()
            try:
                app.keys.pause("a")
            except ActionRefusedError as error:
                if error.reason == "stopped":
                    return
                answers.append((error.reason, time.monotonic() - began_s))

    asking = threading.Thread(target=ask)
    asking.start()
    gate.set()
    app.stop()
    asking.join(10.0)
    assert not asking.is_alive()
    assert all(waited_s < 2.0 for _, waited_s in answers), answers
