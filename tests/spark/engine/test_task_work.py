"""One task of the engine without a JVM: lanes, workers and failure policies over given records."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import HandlerFailedError
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUICK = ehkafka.Retry(attempts=3, first_s=0.001, max_s=0.01)


def test_every_record_has_an_outcome_and_is_counted(lab: Any) -> None:
    """A task ends when each record of its pieces has an outcome; its rows say how many had which."""
    app, seen = lab.make_app(), []

    @app.handler("t", workers=4, retry=QUICK, on_failure=ehkafka.Skip())
    def handle(record: ehkafka.Record) -> None:
        seen.append((record.partition(), record.offset()))
        if record.offset() == 3:
            raise ValueError

    results = lab.run_task(app, lab.log_of(500), lab.log_of(300, partition=1))
    assert sorted(set(seen)) == [*((0, n) for n in range(500)), *((1, n) for n in range(300))]
    assert [(r.topic, r.partition, r.received, r.finished, r.skipped) for r in results] == [
        ("t", 0, 500, 499, 1),
        ("t", 1, 300, 299, 1),
    ]
    assert results[0].retried == 4
    assert results[1].last == (299, 1299, None)


def test_per_key_order_is_kept_with_retries(lab: Any) -> None:
    """Per key, starts follow offsets and no two overlap, retries included: threads on `t`, tasks on `u`."""
    app, chance = lab.make_app(backlog_records_max=200, consume_records_max=50), random.Random(7)
    lock = threading.Lock()
    done: list[tuple[Any, int]] = []
    running: set[Any] = set()
    # An assertion in a handler would be one more failure to be tried again.
    side_by_side: list[int] = []
    options = {"workers": 8, "retry": ehkafka.Retry(attempts=50, first_s=0.001, max_s=0.002)}

    @contextmanager
    def noted(record: ehkafka.Record) -> Iterator[float]:
        key = record.topic(), record.key()
        with lock:
            if key in running:
                side_by_side.append(record.offset())
            running.add(key)
            luck = chance.random()
        yield luck * 1e-3
        with lock:
            running.discard(key)
            if luck <= 0.1:
                raise ValueError
            done.append((key, record.offset()))

    @app.handler("t", **options)
    def handle(record: ehkafka.Record) -> None:
        with noted(record) as pause_s:
            time.sleep(pause_s)

    @app.handler("u", **options)
    async def handle_async(record: ehkafka.Record) -> None:
        with noted(record) as pause_s:
            await asyncio.sleep(pause_s)

    results = lab.run_task(app, lab.log_of(500), lab.log_of(500, topic="u"))
    assert [one.finished for one in results] == [500, 500]
    assert results[0].retried > 20
    assert len(done) == 1000
    assert side_by_side == [], "FACT: two handlers of one key at once"
    lab.assert_key_order(done)


def test_a_failure_with_stop_fails_the_task_and_names_the_record(lab: Any) -> None:
    """Stop() ends the task with one error; a handler that runs meanwhile is let end."""
    app, ended = lab.make_app(), threading.Event()
    started = threading.Event()

    @app.handler("t", workers=4)
    def handle(record: ehkafka.Record) -> None:
        if record.key() == b"k1":
            started.set()
            time.sleep(0.2)
            ended.set()
        elif record.key() == b"k0":
            assert started.wait(5.0)
            raise LookupError("no such home")

    with pytest.raises(HandlerFailedError, match=r"'handle' failed at t\[0\]@0, key k0.*no such home"):
        lab.run_task(app, lab.log_of(4))
    assert ended.is_set()


def test_a_diverted_key_follows_until_the_batch_ends(lab: Any) -> None:
    """After='divert_key' sends the key's next records of the batch after the first, untried."""
    app = lab.make_app()
    letters: list[int] = []
    handled: list[int] = []

    def bury(letter: ehkafka.Letter) -> None:
        letters.append(letter.offset)

    @app.handler("t", workers=4, on_failure=ehkafka.DeadLetter(bury, after="divert_key"))
    def handle(record: ehkafka.Record) -> None:
        handled.append(record.offset())
        if record.offset() == 2:
            raise ValueError

    (result,) = lab.run_task(app, lab.log_of(30, keys=5))
    assert letters == [2, 7, 12, 17, 22, 27]
    assert result.dead_lettered == 6
    assert not set(letters[1:]) & set(handled)
    lab.run_task(app, lab.log_of(30, keys=5, start=30))
    assert len(letters) == 6, "the next batch knows nothing of it"


def test_a_record_held_for_good_fails_the_task(lab: Any) -> None:
    """on_error's "continue" would hold the record, and its batch could never end: the task fails."""
    app = lab.make_app()
    app.on_error(lambda *_words: "continue")

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        raise ValueError(record.offset())

    with pytest.raises(HandlerFailedError, match=r"t\[0\]@0.*waits without end.*on_error must answer"):
        lab.run_task(app, lab.log_of(1))


def test_batches_of_a_batch_handler_do_not_wait_for_more(lab: Any) -> None:
    """The end of a task's records lets the last batch go at once, and a failed record spends its attempts."""
    app, sizes = lab.make_app(), []

    @app.batch_handler("t", batch_records_max=64, wait_s_max=60.0, retry=QUICK, on_failure=ehkafka.Skip())
    def handle(batch: ehkafka.Batch) -> None:
        sizes.append(len(batch))
        for record in batch:
            if record.offset() == 5:
                batch.fail(record, ValueError("five"))

    (result,) = lab.run_task(app, lab.log_of(150))
    assert (result.finished, result.skipped) == (149, 1)
    assert max(sizes) <= 64


def test_a_class_handler_is_opened_and_closed_around_each_partition(lab: Any) -> None:
    """One instance per partition; open before its first record, close after its last."""
    app, reported = lab.make_app(), []

    @app.handler("t", workers=4)
    class Homes:
        def open(self, partition: ehkafka.TopicPartition) -> None:
            self.partition = partition
            reported.append(("open", partition.partition))

        def process(self, record: ehkafka.Record) -> None:
            assert record.partition() == self.partition.partition
            reported.append(("record", record.partition()))

        def close(self, reason: str) -> None:
            reported.append((reason, self.partition.partition))

    lab.run_task(app, lab.log_of(20), lab.log_of(20, partition=1))
    for number in (0, 1):
        own = [what for what, partition in reported if partition == number]
        assert own == ["open", *["record"] * 20, "stopped"]


def test_deferred_records_are_waited_for(lab: Any) -> None:
    """A task ends when its deferred records are answered; one without an answer fails at its deadline."""
    app, timers = lab.make_app(), []

    @app.handler("t", workers=4, on_failure=ehkafka.Skip())
    def handle(record: ehkafka.Record) -> None:
        if record.offset() == 4:
            record.defer(deadline_s=0.1)
            return
        token = record.defer()
        timer = threading.Timer(0.02, token.finish)
        timers.append(timer)
        timer.start()

    (result,) = lab.run_task(app, lab.log_of(10, keys=10))
    assert (result.finished, result.skipped) == (9, 1)
    for timer in timers:
        timer.join()


def test_worker_hooks_middleware_and_partition_hooks_run(lab: Any) -> None:
    """Worker hooks run around a task's workers, on_assigned and on_revoked around its partitions."""
    app, reported = lab.make_app(), []
    app.on_worker_start(lambda: reported.append("set up"))
    app.on_worker_stop(lambda: reported.append("tear down"))
    app.on_assigned(lambda partition: reported.append(f"assigned {partition}"))
    app.on_revoked(lambda partition, reason: reported.append(f"revoked {partition} {reason}"))

    @app.use
    def around(record: Any, call_next: Callable[[Any], object]) -> object:
        reported.append("around")
        return call_next(record)

    @app.handler("t", workers=2)
    def handle(record: ehkafka.Record) -> None:
        reported.append("record")

    lab.run_task(app, lab.log_of(1))
    assert reported[:3] == ["set up", "set up", "assigned t[0]"]
    assert reported[3:5] == ["around", "record"]
    assert reported[5] == "revoked t[0] stopped"
    assert reported[6:] == ["tear down", "tear down"]


def test_records_above_max_age_are_skipped(lab: Any) -> None:
    """max_age: what is too old gets the outcome skipped without a call."""
    app, seen = lab.make_app(), []

    class Young(SimulatedMessage):
        def timestamp(self) -> tuple[int, int]:
            return 1, int(time.time() * 1000)

    @app.handler("t", max_age=timedelta(hours=1))
    def handle(record: ehkafka.Record) -> None:
        seen.append(record.offset())

    (result,) = lab.run_task(app, [*lab.log_of(5), *(Young("t", 0, 5 + n, b"k") for n in range(3))])
    assert seen == [5, 6, 7]
    assert (result.skipped, result.finished) == (5, 3)


def test_what_is_received_stays_within_the_backlog(lab: Any) -> None:
    """A task takes no more records than the backlog has room for, however many its pieces have."""
    app = lab.make_app(backlog_records_max=100, consume_records_max=20)
    most = taken = done = 0
    lock = threading.Lock()

    class Counted(SimulatedMessage):
        def leader_epoch(self) -> int | None:
            return None

    @app.handler("t", workers=4)
    def handle(record: ehkafka.Record) -> None:
        nonlocal done
        time.sleep(0.0005)
        with lock:
            done += 1

    def feed() -> Any:
        nonlocal taken, most
        for batch in batches:
            taken += len(batch[1])
            with lock:
                most = max(most, taken - done)
            yield batch

    log = [Counted("t", 0, n, b"k%d" % n) for n in range(600)]
    batches = lab.as_batches(log, size=20)
    (result,) = lab.task_of(app, log).run(feed())
    assert result.finished == 600
    assert most <= 100 + 2 * 20


def test_deadlines(lab: Any) -> None:
    """An async call past its deadline is cancelled; a thread's cannot be, so its task fails by name."""
    app = lab.make_app()

    @app.handler("t", workers=4, deadline_s=0.05, on_failure=ehkafka.Skip())
    async def slow(record: ehkafka.Record) -> None:
        if record.offset() == 1:
            await asyncio.sleep(30)

    (result,) = lab.run_task(app, lab.log_of(3))
    assert (result.finished, result.skipped) == (2, 1)

    app, go = lab.make_app(), threading.Event()

    @app.handler("t", workers=4, deadline_s=0.05)
    def stuck(record: ehkafka.Record) -> None:
        if record.offset() == 1:
            go.wait(3.0)

    with pytest.raises(HandlerFailedError, match=r"'stuck' has been busy with t\[0\]@1.*deadline_s is 0.05"):
        lab.run_task(app, lab.log_of(3))


def test_a_handler_of_processes_runs_in_the_task(lab: Any) -> None:
    """workers=Processes(…): a task is a process already, and its handler runs there, one record at a time."""
    app, seen = lab.make_app(), []

    def handle(record: ehkafka.Record) -> None:
        seen.append(threading.current_thread().name)

    handle.__qualname__ = "handle"  # as at the top level of a module
    app.handler("t", workers=ehkafka.Processes(4))(handle)
    (result,) = lab.run_task(app, lab.log_of(50))
    assert result.finished == 50
    assert len(set(seen)) == 1


def test_two_handlers_have_their_topics(lab: Any) -> None:
    """Each topic's records go to its own handler, and only handlers with records are started."""
    app, seen = lab.make_app(), []
    app.on_worker_start(lambda: seen.append(("worker", threading.current_thread().name)))

    @app.handler("t", workers=1)
    def first(record: ehkafka.Record) -> None:
        seen.append(("first", record.topic()))

    @app.handler("u", workers=1, raw=True)
    def second(message: Any) -> None:
        seen.append(("second", message.topic()))

    @app.handler("idle", workers=1)
    def third(record: ehkafka.Record) -> None:
        pytest.fail("no record is its")

    lab.run_task(app, lab.log_of(2), lab.log_of(2, topic="u"))
    assert {one for one in seen if one[0] != "worker"} == {("first", "t"), ("second", "u")}
    assert len([one for one in seen if one[0] == "worker"]) == 2
