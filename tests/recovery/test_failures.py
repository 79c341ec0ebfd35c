"""`Failures`: which of its questions comes first, and that nothing a user gives it can break it."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.errors import HandlerFailedError
from ehkafka.events import HandlerFailed, RecordRetried, RecordSkipped, UserCodeFailed
from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead
from ehkafka.lanes.order import KeyFailure
from ehkafka.records.signals import RejectRecord, RetryLater, SkipRecord
from ehkafka.recovery.policy import DeadLetter, Hold, Skip, Stop
from ehkafka.recovery.retry import Retry

FOR_EVER = Retry(attempts=None, first_s=1.0, jitter=0.0)
ERROR = ValueError("no luck")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), MemoryError(), GeneratorExit()])
@pytest.mark.parametrize("policy", [Stop(), Hold(), Skip(), DeadLetter("dead")])
def test_what_says_nothing_about_the_record_stops_the_app(bench: Any, error: Any, policy: Any) -> None:
    """Before retries, on_error and every policy."""
    asked: list[Any] = []
    failures = bench.make_failures(policy=policy, retry=FOR_EVER, ask=lambda *a: asked.append(a))
    assert failures(bench.attempt, error) == HoldHead(f"{type(error).__name__}{': 1' if error.args else ''}")
    (failure,) = bench.failures
    assert isinstance(failure, HandlerFailedError)
    assert failure.__cause__ is error
    assert asked == []
    assert bench.letters == []


def test_a_signal_goes_before_the_retries_and_retries_before_on_error(bench: Any) -> None:
    """Skip and RetryLater are the handler's word; on_error hears of what is given up only."""
    asked: list[Any] = []
    failures = bench.make_failures(policy=Hold(), retry=FOR_EVER, ask=lambda *a: asked.append(a))
    assert failures(bench.attempt, SkipRecord("a test")) == SkipHead("a test")
    assert failures(bench.attempt, RetryLater(9, "soon")) == RetryHead(9.0, "RetryLater: soon", is_asked=True)
    assert failures(bench.attempt, ERROR) == RetryHead(1.0, "ValueError: no luck")
    assert asked == []
    assert failures(bench.attempt, RejectRecord("broken")) == HoldHead("RejectRecord: broken")
    ((kind, partition, record, error),) = asked
    assert (kind, str(partition), record.offset(), record.attempt) == ("handler", "t[0]", 7, 1)
    assert isinstance(error, RejectRecord)
    kinds = [type(event) for event in bench.events]
    assert kinds == [RecordSkipped, RecordRetried, RecordRetried, HandlerFailed]


@pytest.mark.parametrize(
    "answer", ["continue", "stop", None, 5, "stopp", ArithmeticError("hook"), SystemExit()]
)
def test_on_error_goes_before_the_policy(bench: Any, answer: Any) -> None:
    """`continue` holds, `stop` and an exit stop; whatever else is reported and leaves it to the policy."""

    def ask(*_arguments: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    decision = bench.make_failures(policy=Skip(), ask=ask)(bench.attempt, ERROR)
    stops = answer == "stop" or isinstance(answer, SystemExit)
    if stops or answer == "continue":
        assert decision == HoldHead("ValueError: no luck")
    else:
        assert decision == SkipHead("ValueError: no luck")
    assert len(bench.failures) == int(stops)
    reported = [event for event in bench.events if isinstance(event, UserCodeFailed)]
    assert bool(reported) == (answer not in ("continue", "stop", None))


def test_an_order_function_that_failed_is_not_asked_again(bench: Any) -> None:
    """Its answer for a record does not change: no retry."""
    keyless = bench.attempt_of(bench.attempt.message, key=KeyFailure(ERROR))
    assert isinstance(bench.make_failures(policy=Skip(), retry=FOR_EVER)(keyless, ERROR), SkipHead)


@pytest.mark.parametrize("error", [ERROR, RejectRecord("r"), SkipRecord("s"), RetryLater(1)])
def test_a_record_that_belongs_to_another_member_by_now_is_not_decided_on(bench: Any, error: Any) -> None:
    """No letter, no retry and no stop for what is redelivered elsewhere; only a failure is reported."""
    bench.epoch.ended = True
    asked: list[Any] = []
    failures = bench.make_failures(policy=DeadLetter("dead"), retry=FOR_EVER, ask=lambda *a: asked.append(a))
    assert isinstance(failures(bench.attempt, error), HoldHead)
    assert bench.failures == bench.letters == asked == []
    assert [type(e) for e in bench.events] == [HandlerFailed] * (
        not isinstance(error, SkipRecord | RetryLater)
    )


def test_asked_retries_use_up_no_attempts(bench: Any) -> None:
    """The schedule begins anew for none of them, and goes on where the failures were."""
    failures = bench.make_failures(policy=Skip(), retry=Retry(attempts=3, first_s=1.0, jitter=0.0))
    second, third = (bench.attempt_of(bench.attempt.message, number, asked=4) for number in (6, 7))
    assert failures(second, ERROR) == RetryHead(2.0, "ValueError: no luck")
    assert isinstance(failures(third, ERROR), SkipHead)


def test_an_error_without_text_is_no_problem(bench: Any) -> None:
    """Its `__str__` may raise: the decision is made all the same."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    decision = bench.make_failures(policy=DeadLetter("dead"))(bench.attempt, MuteError())
    decision.begin("ticket")
    assert "MuteError" in bench.letters[0][1].header("ehkafka-error-text").decode()
