"""Deferred records: the handler returns, and a token says later how the attempt ended."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import DeferredAnswerDropped, HandlerFailed, StaleResult, UserCodeFailed
from ehkafka.records.deferral import DEFERRED
from tests.contract.conftest import ends_with
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import must_stay, wait_until


class Deferring:
    """A handler's work that defers the records of some keys and keeps their tokens."""

    def __init__(self, *keys: bytes, deadline_s: float = 60.0) -> None:
        self.keys = keys
        self.deadline_s = deadline_s
        self.tokens: list[ehkafka.Deferred] = []

    def __call__(self, record: Any) -> None:
        """Defer it, if its key is one of them."""
        if record.key() in self.keys:
            self.tokens.append(record.defer(self.deadline_s))


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Any:
    """Whatever a test does, its tokens are claimed by their workers."""
    yield
    assert not DEFERRED


def test_a_deferred_record_holds_its_key_and_the_commit_but_no_worker(lab: Any) -> None:
    """The handler has returned; the lane waits, other keys go on with the one worker, until finish()."""
    work = Deferring(b"slow")
    recorder = lab.recorder(work)
    lab.produce("a slow b slow c")
    asked: list[int] = []
    app = lab.start(
        recorder, workers=1, order_by=lambda record: asked.append(record.offset()) or record.key()
    )
    wait_until(lambda: recorder.keys == [b"a", b"slow", b"b", b"c"])
    wait_until(lambda: lab.committed() == 1)
    must_stay(lambda: lab.committed() == 1 and len(recorder.keys) == 4)
    (partition,) = app.snapshot().partitions
    assert partition.oldest.offset == 1
    assert "neither finish() nor fail() was called" in partition.oldest.state
    assert app.health()

    assert work.tokens[0].finish()
    wait_until(lambda: lab.committed() == 3)
    wait_until(lambda: len(work.tokens) == 2)
    work.tokens[1].finish()
    wait_until(lambda: lab.committed() == 5)
    assert app.snapshot().finished_records == 5
    assert sorted(asked) == [0, 1, 2, 3, 4]  # once, it may be slow


def test_the_first_answer_counts_and_later_ones_are_ignored(lab: Any, events: Any) -> None:
    """Both methods tell whether theirs counted; a late one raises nothing."""
    work = Deferring(b"slow")
    lab.produce("slow")
    app = lab.start(lab.recorder(work))
    wait_until(lambda: work.tokens)
    assert [work.tokens[0].finish(), work.tokens[0].finish()] == [True, False]
    assert work.tokens[0].fail(ValueError("too late")) is False
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert not events.of(HandlerFailed)
    assert not events.of(DeferredAnswerDropped)


QUICK = ehkafka.Retry(attempts=3, first_s=0.01)


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("error", "options", "attempts", "outcome"),
    [
        (None, {}, 1, "finished"),
        (ValueError("no luck"), {"retry": QUICK, "on_failure": ehkafka.Skip()}, 3, "skipped"),
        (ehkafka.SkipRecord("not ours"), {"retry": QUICK}, 1, "skipped"),
        (ValueError("bad"), {"on_failure": ehkafka.DeadLetter("u")}, 1, "dead_lettered"),
        (SystemExit(3), {"retry": QUICK, "on_failure": ehkafka.Skip()}, 1, "stops"),
    ],
)
def test_an_answer_is_what_a_return_or_a_raise_would_be(
    lab: Any, error: Any, options: dict[str, Any], attempts: int, outcome: str, raw: bool
) -> None:
    """Retries count, signals and the policy decide; `ehkafka.defer(message)` is for raw handlers."""
    tokens: list[ehkafka.Deferred] = []
    lab.produce("slow")
    app = lab.start(lambda record: tokens.append(ehkafka.defer(record, deadline_s=30.0)), raw=raw, **options)
    for attempt in range(1, attempts + 1):
        wait_until(lambda attempt=attempt: len(tokens) == attempt)
        assert tokens[-1].finish() if error is None else tokens[-1].fail(error)
    if outcome == "stops":
        ends_with(app, ehkafka.errors.HandlerFailedError, "SystemExit")
        assert lab.committed() in (None, 0)
    else:
        wait_until(lambda: lab.committed() == 1)
        assert getattr(app.snapshot(), f"{outcome}_records") == 1
    assert len(tokens) == attempts


def test_without_an_answer_the_attempt_fails_with_a_timeout_error(lab: Any, events: Any) -> None:
    """Expiry: a failed attempt like any other; a late answer counts for nothing and is reported once."""
    work = Deferring(b"slow", deadline_s=0.05)
    asked_on: list[tuple[str, type]] = []
    lab.produce("slow a")
    app = lab.app(lab.recorder(work), on_failure=ehkafka.Skip())

    @app.on_error
    def on_error(_kind: str, _partition: Any, _record: Any, error: BaseException) -> None:
        asked_on.append((threading.current_thread().name, type(error)))

    app.start()
    wait_until(lambda: lab.committed() == 2)
    assert asked_on == [("ehkafka-hooks", TimeoutError)]
    assert [work.tokens[0].finish(), work.tokens[0].finish()] == [False, False]
    (dropped,) = wait_until(lambda: events.of(DeferredAnswerDropped))
    assert (dropped.offset, dropped.key, dropped.attempt) == (0, "slow", 1)
    assert "deadline had passed" in dropped.reason
    app.stop()
    assert app.snapshot().skipped_records == 1


def test_when_the_handler_raises_after_deferring_the_raise_counts(lab: Any, events: Any) -> None:
    """The token is void: its answers are ignored and reported once; the next attempt defers anew."""
    work = Deferring(b"slow")

    def raise_first(record: Any) -> None:
        work(record)
        if record.attempt == 1:
            raise ValueError("no luck")

    lab.produce("slow a")
    lab.start(lab.recorder(raise_first), retry=ehkafka.Retry(attempts=2, first_s=0.01))
    wait_until(lambda: len(work.tokens) == 2)
    assert [work.tokens[0].finish(), work.tokens[0].finish()] == [False, False]
    assert len(wait_until(lambda: events.of(DeferredAnswerDropped))) == 1
    work.tokens[1].finish()
    wait_until(lambda: lab.committed() == 2)


def test_a_stop_waits_for_deferred_records_within_its_deadline(lab: Any) -> None:
    """The drain ends with the answer, and nothing is repeated."""
    work = Deferring(b"slow")
    lab.produce("slow a")
    app = lab.start(lab.recorder(work))
    wait_until(lambda: work.tokens and app.snapshot().finished_records == 1)
    stopping = threading.Thread(target=app.stop)
    stopping.start()
    wait_until(lambda: app.state == "stopping")
    work.tokens[0].finish()
    stopping.join(10.0)
    assert not stopping.is_alive()
    assert lab.committed() == 2


def test_a_stop_names_the_deferred_records_without_an_answer(lab: Any) -> None:
    """It leaves in time; the record is redelivered; an answer after the end does nothing."""
    work = Deferring(b"slow")
    lab.produce("slow a")
    app = lab.start(lab.recorder(work))
    wait_until(lambda: work.tokens and app.snapshot().finished_records == 1)
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key slow \(deferred"):
        app.stop(timeout_s=0.2)
    assert work.tokens[0].finish()
    assert app.snapshot().stale_records == 1
    assert lab.committed() in (None, 0)


def test_an_answer_after_the_revoke_is_stale_and_counted(lab: Any, events: Any) -> None:
    """The partition went to another member, which has the record now."""
    work = Deferring(b"slow")
    for partition in range(4):
        lab.produce("slow a", topic="t4", partition=partition)
    app = lab.start(lab.recorder(work), "t4", drain_s=0.1)
    wait_until(lambda: len(work.tokens) == 4)
    work.keys = ()
    other = lab.start(lab.recorder(), "t4")
    wait_until(lambda: len(other.snapshot().partitions) == len(app.snapshot().partitions) == 2)
    assert all(token.finish() for token in work.tokens)
    wait_until(lambda: sum(event.records for event in events.of(StaleResult)) == 4)
    assert app.snapshot().stale_records == 4
    wait_until(lambda: [lab.committed(p, topic="t4") for p in range(4)] == [2] * 4)


@pytest.mark.parametrize("order_by", [ehkafka.by_key, lambda record: record.key()])
def test_a_defer_outside_of_the_handler_is_refused_at_once(lab: Any, order_by: Any) -> None:
    """Nothing waits for that record any more, or something does already."""
    kept: list[Any] = []
    tokens: list[Any] = []
    lab.produce("a a b")

    def work(record: Any) -> None:
        kept.append(record)
        if record.key() == b"b":
            helper = threading.Thread(target=lambda: tokens.append(record.defer()))
            helper.start()
            helper.join()

    lab.start(work, order_by=order_by)
    wait_until(lambda: lab.committed() == 2 and tokens)
    for record in kept:
        with pytest.raises(RuntimeError, match=r"t\[0\]@\d has left its handler or is already deferred"):
            record.defer()
    assert not DEFERRED
    tokens[0].finish()
    wait_until(lambda: lab.committed() == 3)


def test_a_defer_after_the_last_look_is_reported(lab: Any, events: Any) -> None:
    """The call could not know it: nothing waits for it, and the log says so when its time is up."""
    app = lab.start(lab.recorder())
    message = SimulatedMessage("another", 0, 0, b"a")
    ehkafka.defer(message, deadline_s=0.01)
    (reported,) = wait_until(lambda: events.of(UserCodeFailed))
    assert reported.where == "defer"
    assert "another[0]@0" in reported.error
    app.stop()
    DEFERRED.clear()


def test_async_handlers_defer_and_finish_from_their_own_loop(lab: Any) -> None:
    """A task that outlives the call answers; an early answer, a failure and a raise after it work as well."""
    tasks: set[asyncio.Task[None]] = set()
    calls: list[tuple[int, int]] = []

    async def later(token: ehkafka.Deferred, error: Exception | None) -> None:
        await asyncio.sleep(0.005)
        if error is None:
            token.finish()
        else:
            token.fail(error)

    async def handle(record: Any) -> None:
        calls.append((record.offset(), record.attempt))
        token = record.defer()
        if record.offset() % 4 == 0:
            token.finish()
            return
        fails = record.attempt == 1 and record.offset() % 4 == 1
        task = asyncio.create_task(later(token, ValueError("no luck") if fails else None))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if record.attempt == 1 and record.offset() % 4 == 2:
            raise ValueError("after deferring")

    lab.produce("a b c d " * 25)
    app = lab.start(handle, workers=8, retry=ehkafka.Retry(attempts=2, first_s=0.01))
    wait_until(lambda: lab.committed() == 100)
    assert app.snapshot().finished_records == 100
    assert len(calls) == 150
