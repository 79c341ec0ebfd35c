"""Deferred records at the seams: tokens, and answers that race with worker, settle and deadline."""

from __future__ import annotations

import gc
import random
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.lanes.decision import RetryHead, SkipHead
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import Record, TopicPartition, deferral
from ehkafka.records.deferral import DEFERRED, Deferred, defer, is_deferred
from ehkafka.recovery.pending import PendingAnswers
from ehkafka.testing.clock import VirtualClock
from ehkafka.workers.exchange import Exchange
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITION = TopicPartition("t", 0)
LIMIT_S = 30.0


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Every test begins and ends with an empty registry."""
    DEFERRED.clear()
    yield
    DEFERRED.clear()


def message(offset: int = 0, key: bytes = b"a") -> SimulatedMessage:
    """Return a record's message."""
    return SimulatedMessage("t", 0, offset, key)


class Bench:
    """A dispatcher with one assignment, its exchange and its deferred records; no thread of its own."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock(time.monotonic())
        self.dispatcher = Dispatcher()
        self.exchange = Exchange(self.dispatcher, self.clock.now_s)
        self.assignment = self.dispatcher.assign(PARTITION, 1)
        self.events = Events()
        self.failures_asked: list[tuple[str, BaseException]] = []
        self.decide: Callable[[Any, BaseException], Any] = lambda _lane, _error: SkipHead("failed")
        self.pending = PendingAnswers(
            complete=self.exchange.complete,
            complete_in_begin=self.exchange.complete_in_begin,
            failures=self._failures,
            emit=self.events.append,
            clock=self.clock.now_s,
        )

    def _failures(self, lane: Any, error: BaseException) -> Any:
        self.failures_asked.append((threading.current_thread().name, error))
        return self.decide(lane, error)

    def receive(self, *keys: bytes) -> None:
        """Hand over records from offset 0 on."""
        first = self.assignment.received_next or 0
        batch = [message(first + number, key) for number, key in enumerate(keys)]
        with self.exchange.locked() as dispatcher:
            dispatcher.receive(self.assignment, batch, keys, self.clock.now_s())

    def run_handler(self, handler: Callable[[Any], object]) -> None:
        """Do what a worker does for one record."""
        lane = self.dispatcher.begin()
        assert lane is not None
        handler(Record(lane.head))  # type: ignore[arg-type]
        if not self.pending.claims(lane):
            lane.advance()
        self.exchange.returned.append(lane)
        self.exchange.settle()

    def watermark(self) -> int | None:
        """What could be committed."""
        with self.exchange.locked():
            return self.assignment.watermark()


def test_nothing_is_registered_once_the_handler_has_returned() -> None:
    """The registry holds what runs, not what waits: so one that nobody defers in costs a look at a dict."""
    bench = Bench()
    bench.receive(b"a", b"b")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer()))
    assert not DEFERRED
    assert bench.watermark() == 0
    bench.run_handler(lambda _record: None)
    assert bench.watermark() == 0
    tokens[0].finish()
    assert bench.watermark() == 2
    assert not bench.pending.waiting
    assert bench.dispatcher.finished_records == 2


def test_answers_count_once_and_say_so() -> None:
    """The first wins, whichever it is."""
    bench = Bench()
    bench.receive(b"a")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer()))
    (token,) = tokens
    assert token.is_open
    assert repr(token) == "<Deferred t[0]@0 open>"
    assert [token.fail(ValueError()), token.finish(), token.fail(ValueError())] == [True, False, False]
    assert not token.is_open
    assert bench.dispatcher.skipped_records == 1
    assert len(bench.failures_asked) == 1


def test_an_expired_token_fails_its_attempt_once_and_on_the_thread_that_expires_it() -> None:
    """The poll thread only finds it; a second look finds nothing; an answer after it is reported once."""
    bench = Bench(VirtualClock(time.monotonic()))
    bench.receive(b"a")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer(deadline_s=5.0)))
    assert bench.pending.take_expired() == []
    bench.clock.advance(6.0)
    (head,) = bench.pending.take_expired()
    assert not bench.failures_asked
    assert bench.pending.take_expired() == []
    head.expire()
    ((_, error),) = bench.failures_asked
    assert isinstance(error, TimeoutError)
    assert str(error) == "the record was deferred and neither finished nor failed within its deadline of 5 s"
    assert [tokens[0].finish(), tokens[0].finish()] == [False, False]
    (dropped,) = bench.events
    assert (dropped.offset, dropped.key, dropped.attempt) == (0, "a", 1)


def test_an_answer_between_the_look_and_the_expiry_counts() -> None:
    """The hook thread may be busy: whoever is first wins, and the other is void."""
    bench = Bench()
    bench.receive(b"a")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer(deadline_s=5.0)))
    bench.clock.advance(6.0)
    (head,) = bench.pending.take_expired()
    assert tokens[0].finish()
    head.expire()
    assert not bench.failures_asked
    assert bench.dispatcher.finished_records == 1


def test_a_retried_record_can_be_deferred_again() -> None:
    """The message is the same object; each attempt has its own token."""
    bench = Bench()
    bench.decide = lambda _lane, error: RetryHead(1.0, str(error))
    bench.receive(b"a", b"a")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer()))
    tokens[0].fail(ValueError("no luck"))
    bench.clock.advance(1.0)
    with bench.exchange.locked() as dispatcher:
        assert dispatcher.holds.unpark_due(bench.clock.now_s()) == 1
    bench.run_handler(lambda record: tokens.append(record.defer()))
    assert tokens[0].finish() is False
    assert bench.watermark() == 0
    assert tokens[1].finish()
    assert bench.watermark() == 1


def test_answers_of_an_ended_epoch_are_stale_and_ask_no_policy() -> None:
    """Counted; the failures decides nothing for a record that is another member's."""
    bench = Bench()
    bench.receive(b"a", b"b")
    tokens: list[Deferred] = []
    for _ in range(2):
        bench.run_handler(lambda record: tokens.append(record.defer()))
    with bench.exchange.locked() as dispatcher:
        assert not dispatcher.drained(bench.assignment)
        dispatcher.end(bench.assignment)
    assert tokens[0].finish()
    assert tokens[1].fail(ValueError())
    assert bench.dispatcher.stale_records == 1
    assert not bench.failures_asked
    assert not bench.dispatcher.decisions.awaited


def test_many_early_answers_are_settled_without_recursion() -> None:
    """Whoever settles 5000 lanes whose tokens were answered in between does so in a loop."""
    bench = Bench()
    bench.receive(*(b"k%d" % number for number in range(5_000)))
    lanes = [bench.dispatcher.begin() for _ in range(5_000)]
    for lane in lanes:
        assert lane is not None
        token = defer(lane.head)  # type: ignore[arg-type]
        assert bench.pending.claims(lane)
        assert token.finish()  # the lane is not handed in yet: there is no ticket to answer
        bench.exchange.returned.append(lane)
    bench.exchange.settle()
    assert bench.dispatcher.finished_records == 5_000
    assert bench.watermark() == 5_000


def watch_until(bench: Bench, done: Callable[[], bool]) -> None:
    """Do what the poll thread does between two batches."""

    def check() -> None:
        with bench.exchange.locked() as dispatcher:
            dispatcher.holds.unpark_due(bench.clock.now_s())
        bench.exchange.watch()
        time.sleep(1e-3)

    wait_until(done, meanwhile=check)


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_race_with_the_hand_in_are_never_lost_nor_counted_twice(seed: int) -> None:
    """20 000 records of 50 keys; answered at once, from two threads at once, or later; 10 % fail first."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    rng = random.Random(seed)
    bench = Bench()
    bench.decide = lambda _lane, error: RetryHead(0.0, str(error))
    running: Counter[bytes | None] = Counter()
    last: dict[bytes | None, int] = {}
    wrong: list[str] = []
    answering = ThreadPoolExecutor(3)

    def answer(token: Deferred, key: bytes | None, *, fails: bool) -> None:
        running[key] -= 1
        counted = [token.fail(ValueError()) if fails else token.finish() for _ in range(2)]
        if counted.count(True) > 1:
            wrong.append(f"{token!r} was answered twice")

    def handler(lane: Any) -> None:
        key, offset = lane.head.key(), lane.head.offset()
        running[key] += 1
        if running[key] != 1 or last.get(key, -1) > offset or (last.get(key) == offset and not lane.attempts):
            wrong.append(f"{key!r}@{offset} overlaps or comes late")
        last[key] = offset
        what = rng.random()
        if what < 0.3:
            running[key] -= 1
            return
        token = defer(lane.head)
        fails = what > 0.9 and not lane.attempts
        if what < 0.5:
            answer(token, key, fails=fails)
        else:
            answering.submit(answer, token, key, fails=fails)

    workers = ThreadWorkers(
        bench.exchange,
        PoolOptions(
            name="deferring",
            size=4,
            on_failure=lambda _lane, error: RetryHead(0.0, str(error)),
            on_death=lambda error: wrong.append(f"a worker died: {error!r}"),
            deferrals=bench.pending,
        ),
        invoke=handler,
    )
    try:
        workers.start()
        for _ in range(40):
            bench.receive(*(b"k%d" % rng.randrange(50) for _ in range(500)))
        watch_until(bench, lambda: bool(wrong) or bench.dispatcher.finished_records == 20_000)
    finally:
        sys.setswitchinterval(before_s)
        answering.shutdown()
        assert workers.stop(LIMIT_S) == []
    assert not wrong
    assert bench.dispatcher.finished_records == 20_000
    assert bench.watermark() == 20_000
    assert not DEFERRED
    assert not bench.pending.waiting


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "10", True, None, 1e9])
def test_a_deadline_that_cannot_be_is_refused(wrong: Any) -> None:
    """In the handler, so that it is a failed attempt that says why; nothing is registered."""
    with pytest.raises(ValueError, match="give a number of seconds above 0") as caught:
        Record(message()).defer(deadline_s=wrong)
    assert repr(wrong) in str(caught.value)
    assert not DEFERRED


def test_a_record_is_deferred_once_an_attempt() -> None:
    """Middleware and handler cannot both hold the only answer."""
    record = Record(message())
    assert not is_deferred(record.message)
    record.defer()
    assert is_deferred(record.message)
    with pytest.raises(RuntimeError, match="deferred already"):
        record.defer()


def test_only_exceptions_are_failures() -> None:
    """A text or a class is a mistake that would end in the policy."""
    token = defer(message())
    with pytest.raises(TypeError, match="give an exception"):
        token.fail("no luck")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give an exception"):
        token.fail(ValueError)  # type: ignore[arg-type]
    assert token.is_open


def test_deferring_elsewhere_is_bounded_and_refused_in_worker_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tokens that no worker claims must not fill the memory; a process has no way back for an answer."""
    monkeypatch.setattr(deferral, "WAITING_MAX", 2)
    kept = [message(), message(1)]
    for one in kept:
        defer(one)
    with pytest.raises(RuntimeError, match="from within the record's own handler only"):
        defer(message(2))
    monkeypatch.setattr(deferral, "_refusal", "not in a worker process")
    with pytest.raises(RuntimeError, match="not in a worker process"):
        defer(message(3))


def test_a_token_keeps_its_message_so_that_nobody_else_gets_its_place() -> None:
    """The registry knows messages by `id`, which a freed one would hand on."""
    for _ in range(100):
        defer(message())
        gc.collect(0)
    assert len(DEFERRED) == 100


def test_the_facade_has_what_a_raw_handler_needs() -> None:
    """`ehkafka.defer(message)` returns an `ehkafka.Deferred`."""
    assert isinstance(ehkafka.defer(message()), ehkafka.Deferred)
