"""Deferred records at the seams: tokens, and answers that race with worker, taking over and deadline."""

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

from ehkafka.lanes.decision import Attempt, RetryHead, SkipHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import Record, TopicPartition, deferral
from ehkafka.records.deferral import DEFERRED, Deferred, defer
from ehkafka.recovery.pending import PendingAnswers
from ehkafka.workers.hub import Hub
from ehkafka.workers.protocol import PoolOptions
from ehkafka.workers.threads import ThreadWorkers
from tests.kit.clock import VirtualClock
from tests.kit.events import Events
from tests.kit.inbox_bench import Call
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
    """A hub with one epoch, and its deferred records; no thread of its own."""

    def __init__(self, clock: VirtualClock | None = None, workers: int = 1) -> None:
        self.clock = clock or VirtualClock(time.monotonic())
        self.hub = Hub(Inboxes(workers), self.clock.now_s)
        self.workers = [Call(inbox) for inbox in self.hub.inboxes.inboxes]
        with self.hub.locked() as inboxes:
            self.epoch = inboxes.assign(PARTITION, 1)
        self.events = Events()
        self.failures_asked: list[tuple[str, BaseException]] = []
        self.decide: Callable[[Any, BaseException], Any] = lambda _attempt, _error: SkipHead("failed")
        self.pending = PendingAnswers(
            answer=self.hub.answer,
            failures=self._failures,
            emit=self.events.append,
            clock=self.clock.now_s,
        )

    def _failures(self, attempt: Any, error: BaseException) -> Any:
        self.failures_asked.append((threading.current_thread().name, error))
        return self.decide(attempt, error)

    def receive(self, *keys: bytes) -> None:
        """Hand over records from offset 0 on."""
        first = self.epoch.received.next_offset or 0
        batch = [message(first + number, key) for number, key in enumerate(keys)]
        self.hub.receive([(self.epoch, batch, keys, (), [len(one) for one in batch])])

    def run_handler(self, handler: Callable[[Any], object]) -> None:
        """Do what a worker does for one record."""
        worker = next(worker for worker in self.workers if worker.start())
        entry = worker.entry
        assert entry is not None
        handler(Record(entry[MESSAGE]))
        decision = self.pending.awaits(self.hub.inboxes.router.attempt_of(entry))
        if decision is None:
            worker.inbox.head = None
        else:
            self.hub.fail(worker.inbox, entry, decision)

    def watermark(self) -> int | None:
        """What could be committed."""
        with self.hub.locked():
            return self.epoch.watermark()


def test_nothing_is_registered_once_the_handler_has_returned() -> None:
    """The registry has the running records only: a handler that never defers costs a look at a dict."""
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
    assert bench.hub.tally.finished_records == 2


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
    assert str(error) == "the record was deferred, but its result was not given within its deadline of 5 s"
    assert [tokens[0].finish(), tokens[0].finish()] == [False, False]
    (dropped,) = bench.events
    assert (dropped.offset, dropped.key, dropped.attempt) == (0, "a", 1)


def test_an_answer_between_the_look_and_the_expiry_counts() -> None:
    """The hook thread may be busy: the first of them counts, and the other one is void."""
    bench = Bench()
    bench.receive(b"a")
    tokens: list[Deferred] = []
    bench.run_handler(lambda record: tokens.append(record.defer(deadline_s=5.0)))
    bench.clock.advance(6.0)
    (head,) = bench.pending.take_expired()
    assert tokens[0].finish()
    head.expire()
    assert not bench.failures_asked
    assert bench.hub.tally.finished_records == 1


def test_many_early_answers_are_taken_without_recursion() -> None:
    """5000 records were answered before they were taken over; the lock's holder takes them over in a loop."""
    bench = Bench(workers=5_000)
    bench.receive(*(b"k%d" % number for number in range(5_000)))
    with bench.hub.locked():
        for worker in bench.workers:
            assert worker.start()
            entry = worker.entry
            assert entry is not None
            token = defer(entry[MESSAGE])
            decision = bench.pending.awaits(Attempt(entry))
            assert decision is not None
            assert token.finish()  # it is not taken over yet: there is no ticket to answer
            bench.hub.fail(worker.inbox, entry, decision)  # the lock's holder does it
    assert bench.hub.tally.finished_records == 5_000
    assert bench.watermark() == 5_000


def watch_until(bench: Bench, done: Callable[[], bool]) -> None:
    """Do what the poll thread does between two batches."""

    def check() -> None:
        with bench.hub.locked() as inboxes:
            inboxes.check(bench.clock.now_s())
        time.sleep(1e-3)

    wait_until(done, meanwhile=check)


@pytest.mark.parametrize("seed", range(3))
def test_answers_that_race_with_the_taking_over_are_never_lost_nor_counted_twice(seed: int) -> None:
    """20 000 records of 50 keys; answered at once, from two threads at once, or later; 10 % fail first."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    rng = random.Random(seed)
    bench = Bench(workers=4)
    bench.decide = lambda _attempt, error: RetryHead(0.0, str(error))
    running: Counter[bytes | None] = Counter()
    last: dict[bytes | None, int] = {}
    wrong: list[str] = []
    answering = ThreadPoolExecutor(3)

    def answer(token: Deferred, key: bytes | None, *, fails: bool) -> None:
        running[key] -= 1
        counted = [token.fail(ValueError()) if fails else token.finish() for _ in range(2)]
        if counted.count(True) > 1:
            wrong.append(f"{token!r} was answered twice")

    def handler(entry: Any, attempt: int) -> None:
        its_message = entry[MESSAGE]
        key, offset = its_message.key(), its_message.offset()
        running[key] += 1
        if running[key] != 1 or last.get(key, -1) > offset or (last.get(key) == offset and attempt == 1):
            wrong.append(f"{key!r}@{offset} overlaps or comes late")
        last[key] = offset
        what = rng.random()
        if what < 0.3:
            running[key] -= 1
            return
        token = defer(its_message)
        fails = what > 0.9 and attempt == 1
        if what < 0.5:
            answer(token, key, fails=fails)
        else:
            answering.submit(answer, token, key, fails=fails)

    workers = ThreadWorkers(
        bench.hub,
        PoolOptions(
            name="deferring",
            size=4,
            on_failure=lambda _attempt, error: RetryHead(0.0, str(error)),
            on_death=lambda error: wrong.append(f"a worker died: {error!r}"),
            deferrals=bench.pending,
        ),
        invoke=handler,
    )
    try:
        workers.start()
        for _ in range(40):
            bench.receive(*(b"k%d" % rng.randrange(50) for _ in range(500)))
        watch_until(bench, lambda: bool(wrong) or bench.hub.tally.finished_records == 20_000)
    finally:
        sys.setswitchinterval(before_s)
        answering.shutdown()
        assert workers.stop(LIMIT_S) == []
    assert not wrong
    assert bench.hub.tally.finished_records == 20_000
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


def test_only_exceptions_are_failures() -> None:
    """A text or a class is a mistake that would end in the policy."""
    token = defer(message())
    with pytest.raises(TypeError, match="give the exception"):
        token.fail("no luck")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give the exception"):
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
    with pytest.raises(RuntimeError, match="only within the record's own handler"):
        defer(message(2))
    monkeypatch.setattr(deferral, "_refusal", "not in a worker process")
    with pytest.raises(RuntimeError, match="not in a worker process"):
        defer(message(3))


def test_a_token_keeps_its_message_so_that_no_other_message_gets_its_place() -> None:
    """The registry knows messages by `id`, which a freed one would hand on."""
    for _ in range(100):
        defer(message())
        gc.collect(0)
    assert len(DEFERRED) == 100
