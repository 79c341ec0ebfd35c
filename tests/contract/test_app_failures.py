"""Failing handlers, hooks, topics and brokers: what each leads to, and what it must not touch."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.events import UserCodeFailed
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until


@pytest.mark.parametrize(
    ("answer", "policy", "stops"),
    [
        ("continue", ehkafka.Stop(), False),
        ("stop", ehkafka.Hold(), True),
        (None, ehkafka.Hold(), False),
        (None, ehkafka.Stop(), True),
        ("nonsense", ehkafka.Hold(), False),
    ],
)
def test_on_error_may_overrule_the_policy(
    lab: Any, recorder: Any, answer: Any, policy: Any, stops: bool
) -> None:
    """`continue` holds the record, `stop` ends the app, anything else leaves it to on_failure."""
    asked: list[Any] = []
    recorder.fail_at(1)
    lab.produce("a b c")
    app: ehkafka.App = lab.app(recorder, on_failure=policy)

    @app.on_error
    def on_error(*arguments: Any) -> Any:
        asked.append(arguments)
        return answer

    app.start()
    if stops:
        ends_with(app, ehkafka.errors.HandlerFailedError)
    else:
        wait_until(lambda: recorder.count == 2 and not app.health())
        assert app.state == "running"
        app.stop()
    ((kind, partition, record, error),) = asked
    assert (kind, partition, record.offset()) == ("handler", ehkafka.TopicPartition("t", 0), 1)
    assert isinstance(error, ValueError)


def test_event_hooks_that_raise_or_block_never_reach_the_data_path(lab: Any, recorder: Any) -> None:
    """Records are handled and committed while one hook raises and the telemetry thread is blocked."""

    class Broken:
        def on_event(self, _event: Any) -> None:
            raise ArithmeticError("broken hook")

    class Blocked:
        def on_event(self, _event: Any) -> None:
            gate.wait(30.0)

    gate = recorder.block(b"never produced")
    lab.produce("a b c")
    app = lab.app(recorder)
    app.add_hook(Broken())
    app.add_hook(Blocked())
    app.start()
    wait_until(lambda: lab.committed() == 3)
    assert app.snapshot().counters["hook_errors"] >= 1
    gate.set()


@pytest.mark.parametrize("name", ["on_revoked", "on_idle"])
def test_partition_hooks_that_raise_are_reported_and_stop_nothing(
    lab: Any, recorder: Any, events: Any, name: str
) -> None:
    """on_revoked and on_idle: the error is an event, records and commits go on."""

    def broken(*_arguments: Any) -> None:
        raise ArithmeticError("broken hook")

    lab.produce("a b c")
    app = lab.app(recorder, idle_s=0.2)
    getattr(app, name)(broken)
    app.start()
    wait_until(lambda: lab.committed() == 3)
    if name == "on_idle":
        wait_until(lambda: events.of(UserCodeFailed))
        lab.produce("d")
        wait_until(lambda: lab.committed() == 4)
    app.stop()
    assert "broken hook" in events.of(UserCodeFailed)[0].error


# --- retries ---


def test_only_the_failing_key_waits_and_it_holds_neither_worker_nor_intake_credit(
    lab: Any, recorder: Any
) -> None:
    """With one worker and room for two records, 40 records of other keys pass three that wait."""
    recorder.fail_at(0)
    lab.produce("bad bad bad")
    app = lab.start(
        recorder,
        workers=1,
        backlog_records_max=2,
        consume_records_max=2,
        retry=ehkafka.Retry(attempts=None, first_s=60.0, max_s=60.0),
    )
    wait_until(lambda: app.snapshot().partitions and app.snapshot().partitions[0].parked_records == 3)
    lab.produce(" ".join(f"k{n}" for n in range(40)))
    wait_until(lambda: recorder.count == 40)
    assert recorder.keys.count(b"bad") == 1
    (partition,) = app.snapshot().partitions
    assert (partition.parked_records, partition.backlog_records) == (3, 0)
    assert lab.committed() in (None, 0)


@pytest.mark.parametrize("answer", ["soon", -1, True, float("nan")])
def test_a_retry_function_that_answers_nonsense_is_reported_and_leaves_it_to_the_policy(
    lab: Any, recorder: Any, events: Any, answer: Any
) -> None:
    """The record does not stay in the air, and the event says what was answered."""
    recorder.fail_at(0)
    lab.produce("a")
    app = lab.start(recorder, retry=lambda *_arguments: answer, on_failure=ehkafka.Skip())
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    (reported,) = events.of(UserCodeFailed)
    assert reported.where == "retry"
    assert repr(answer) in reported.error


def test_a_retry_function_decides_by_record_attempt_and_error(lab: Any, recorder: Any) -> None:
    """It gets what it needs, and None gives the record up."""
    asked: list[Any] = []

    def retry(record: ehkafka.Record, attempt: int, error: Exception) -> float | None:
        asked.append((record.offset(), record.attempt, attempt, str(error)))
        return 0.01 if attempt < 2 else None

    recorder.fail_at(0)
    lab.produce("a")
    app = lab.start(recorder, retry=retry, on_failure=ehkafka.Skip())
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert asked == [(0, 1, 1, "no luck with 0"), (0, 2, 2, "no luck with 0")]


def test_a_stop_waits_for_retries_that_come_in_time(lab: Any, recorder: Any) -> None:
    """The record is finished and committed before the app leaves."""

    def work(record: Any) -> None:
        if (record.offset(), record.attempt) == (0, 1):
            raise ValueError("no luck")

    recorder.work = work
    lab.produce("a a")
    app = lab.start(recorder, retry=ehkafka.Retry(first_s=0.4, jitter=0))
    # The second one may be received later than the first, and a stop receives nothing more.
    wait_until(lambda: recorder.started and app.snapshot().received_records == 2)
    app.stop(drain="all")
    assert [(record.offset(), record.attempt) for record in recorder.records] == [(0, 1), (0, 2), (1, 1)]
    assert lab.committed() == 2
