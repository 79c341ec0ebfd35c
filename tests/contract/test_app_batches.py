"""Batch handlers: how batches fill, whose records they hold, and what each result leads to."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

import ehkafka
from ehkafka.events import BatchRaised, CommitAcknowledged, HandlerFailed, RecordSkipped, StaleResult
from ehkafka.testing import ApiKey, CheckingHistory
from tests.kit.unstolen import unstolen_s

HANDLER = {
    "batch_records_max",
    "batch_records_min",
    "batch_bytes_max",
    "wait_s_max",
    "unique_keys",
    "order_by",
    "scope",
    "workers",
    "retry",
    "on_failure",
}


class Store:
    """A batch handler that keeps what it was given and does what a test says with it."""

    def __init__(self, work: Any = None) -> None:
        self.work = work
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[tuple[int, int]]] = []
        self.sizes: list[int] = []
        self.attempts: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.running = self.running_max = self.finished = 0
        self.keys: Counter[Any] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, batch: ehkafka.Batch) -> None:
        """Handle a batch."""
        keys = {(record.partition(), record.key()) for record in batch}
        with self._lock:
            self.batches.append([(record.partition(), record.offset()) for record in batch])
            self.sizes.append(len(batch))
            for record in batch:
                self.attempts[record.partition(), record.offset()].append(record.attempt)
            self.running += 1
            self.running_max = max(self.running, self.running_max)
            self.wrong += [f"{key} is in two batches at once" for key in keys if self.keys[key]]
            self.keys.update(keys)
        try:
            assert self.gate.wait(30.0)
            if self.work is not None:
                self.work(batch)
        finally:
            with self._lock:
                self.running -= 1
                self.keys.subtract(keys)
        with self._lock:
            self.finished += len(batch)

    def offsets(self, partition: int = 0) -> list[list[int]]:
        """The offsets of each batch that has records of a partition."""
        found = [[o for p, o in batch if p == partition] for batch in self.batches]
        return [offsets for offsets in found if offsets]


@pytest.fixture
def store_app(lab: Any) -> Any:
    """Make apps with a `Store` for a handler, whose gates are open when the test ends."""

    def make(store: Store, *topics: str, **options: Any) -> Any:
        handler = {name: options.pop(name) for name in HANDLER & options.keys()}
        app = lab.app(None, **options)
        app.batch_handler(*(topics or ("t",)), **handler)(store)
        lab.recorders.append(type("Gate", (), {"open_all": lambda _self: store.gate.set()})())
        return app

    return make


# --- filling ---


def test_a_batch_goes_when_it_is_full_and_the_rest_when_its_time_is_up(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """25 records, ten a batch: two go at once, five after wait_s_max; all are committed."""
    store = Store()
    app = store_app(store, batch_records_max=10, wait_s_max=0.4, workers=1)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.produce("a b c d e " * 5)
    wait_for(lambda: store.finished == 20)
    began_s = time.monotonic()
    wait_for(lambda: store.finished == 25)
    assert time.monotonic() - began_s > 0.1
    app.stop()
    assert store.sizes == [10, 10, 5]
    assert lab.committed() == 25


def test_min_records_do_not_wait_for_more(lab: Any, store_app: Any, wait_for: Any) -> None:
    """With batch_records_min=1 and an hour to wait, a single record goes at once."""
    store = Store()
    app = store_app(store, batch_records_max=100, batch_records_min=1, wait_s_max=3600.0)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    for number in range(3):
        lab.produce("a")
        wait_for(lambda number=number: store.finished == number + 1)
    app.stop()


def test_max_bytes_bounds_a_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Values of 40 bytes and room for 100: two a batch; a larger one goes alone."""
    store = Store()
    lab.produce("a b c d", value=b"x" * 40)
    lab.produce("e", value=b"x" * 400)
    app = store_app(store, batch_bytes_max=100, wait_s_max=0.2, workers=1)
    app.start()
    wait_for(lambda: store.finished == 5)
    app.stop()
    assert store.batches[:2] == [[(0, 0), (0, 1)], [(0, 2), (0, 3)]]
    assert store.batches[2] == [(0, 4)]


def test_unique_keys_gives_each_key_once(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Three of a, two of b: in three batches, in order."""
    store = Store()
    lab.produce("a a b a b")
    app = store_app(store, unique_keys=True, wait_s_max=0.2)
    app.start()
    wait_for(lambda: store.finished == 5)
    app.stop()
    assert store.batches == [[(0, 0), (0, 2)], [(0, 1), (0, 4)], [(0, 3)]]


def test_by_partition_gives_a_partition_whole_and_in_order(lab: Any, store_app: Any, wait_for: Any) -> None:
    """O7: no two batches have records of one partition, and each goes on where the last one ended."""
    store = Store(lambda _batch: time.sleep(0.005))
    for partition in range(2):
        lab.produce("a b c d " * 20, topic="t4", partition=partition)
    app = store_app(store, "t4", order_by=ehkafka.by_partition, batch_records_max=16, workers=4)
    app.start()
    wait_for(lambda: store.finished == 160)
    app.stop()
    for partition in range(2):
        handled = [offset for offsets in store.offsets(partition) for offset in offsets]
        assert handled == list(range(80))


def test_o6_handler_scope_gives_a_key_of_several_partitions_one_lane(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """O6: one record of a key in each batch, each partition's commit right."""
    lab.checker_options = {"lane_scope": lambda _partition: "one handler"}
    store = Store()
    lab.produce("K x K", topic="t4", partition=0)
    lab.produce("K y K", topic="t4", partition=1)
    app = store_app(store, "t4", scope="handler", wait_s_max=0.1)
    app.start()
    wait_for(lambda: store.finished == 6)
    app.stop()
    assert [lab.committed(partition, topic="t4") for partition in (0, 1)] == [3, 3]


# --- order and limits ---


def test_o1_o8_batches_that_run_at_once_never_share_a_key(lab: Any, store_app: Any, wait_for: Any) -> None:
    """O1, O8: 3000 records of 40 keys on 4 workers: per key in order, never more than four at once."""
    rng = random.Random(5)
    store = Store(lambda _batch: time.sleep(rng.choice((0, 0.001, 0.004))))
    history = CheckingHistory()
    for partition in range(3):
        lab.produce(" ".join(f"k{rng.randrange(40)}" for _ in range(1_000)), topic="t4", partition=partition)
    app = store_app(store, "t4", batch_records_max=25, workers=4, wait_s_max=0.1, history=history)
    app.start()
    wait_for(lambda: store.finished == 3_000)
    app.stop()
    assert store.wrong == []
    assert 1 < store.running_max <= 4
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    assert verdict.finished == 3_000


def test_o2_a_blocked_batch_holds_back_only_its_own_keys(lab: Any, store_app: Any, wait_for: Any) -> None:
    """O2, C1: other keys go on, and the commit waits for the blocked batch."""
    blocked = threading.Event()

    def work(batch: ehkafka.Batch) -> None:
        if any(record.key() == b"A" for record in batch):
            assert blocked.wait(30.0)

    store = Store(work)
    app = store_app(store, batch_records_max=10, batch_records_min=1, workers=2)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.produce("A")
    wait_for(lambda: store.running == 1)
    lab.produce("A b c d e f")
    wait_for(lambda: store.finished == 5)
    time.sleep(0.25)
    assert lab.committed() in (None, 0)
    blocked.set()
    wait_for(lambda: store.finished == 7)
    app.stop()
    assert lab.committed() == 7


def test_a_hot_key_does_not_fill_every_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """O11: with 2000 records of one key in front, the others are in the first batches."""
    store = Store()
    app = store_app(store, batch_records_max=50, wait_s_max=0.1, workers=1)
    store.gate.clear()
    lab.produce("first")
    app.start()
    wait_for(lambda: store.running == 1)
    lab.produce("hot " * 2_000 + " ".join(f"k{n}" for n in range(20)))
    wait_for(lambda: app.snapshot().received_records == 2_021)
    store.gate.set()
    wait_for(lambda: store.finished == 2_021)
    app.stop()
    cool = [number for number, offsets in enumerate(store.offsets()) if any(o > 2_000 for o in offsets)]
    assert cool == [1]


# --- results ---


def fail_offsets(*offsets: int, times: int = 10**9) -> Any:
    """Fail these records of a batch, each so many times."""
    left = dict.fromkeys(offsets, times)

    def work(batch: ehkafka.Batch) -> None:
        for record in batch:
            if left.get(record.offset()):
                left[record.offset()] -= 1
                batch.fail(record, ValueError(f"no luck with {record.offset()}"))

    return work


def test_f12_a_failed_record_and_the_later_ones_of_its_key_come_again(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """F12: the others are done; key order is kept; only the failed one spends an attempt."""
    store = Store(fail_offsets(2, times=2))
    lab.produce("a b a c a b")
    app = store_app(
        store, batch_records_max=6, wait_s_max=0.1, workers=1, retry=ehkafka.Retry(attempts=5, first_s=0.05)
    )
    app.start()
    wait_for(lambda: lab.committed() == 6)
    app.stop()
    assert store.offsets() == [[0, 2, 4, 1, 5, 3], [2, 4], [2, 4]]
    assert store.attempts[0, 2] == [1, 2, 3]
    assert store.attempts[0, 4] == [1, 1, 1]
    assert store.attempts[0, 0] == store.attempts[0, 3] == [1]


def test_f1_a_failed_record_without_retry_holds_its_key_alone(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """F1: under Hold() nothing at or above it is committed, other keys go on."""
    store = Store(fail_offsets(1))
    lab.produce("a b c b")
    app = store_app(store, batch_records_max=4, wait_s_max=0.1, on_failure=ehkafka.Hold())
    app.start()
    wait_for(lambda: lab.committed() == 1)
    lab.produce("c b d")
    wait_for(lambda: store.finished == 6)
    (reason,) = wait_for(lambda: app.health().reasons)
    assert "t[0]@1, key b" in reason
    assert "no luck with 1" in reason
    app.stop()
    assert lab.committed() == 1


def test_by_default_a_failed_record_stops_the_app_and_is_named(lab: Any, store_app: Any) -> None:
    """F1: what came before it in its key is done and committed."""
    store = Store(fail_offsets(2))
    lab.produce("a a a a")
    app = store_app(store, batch_records_max=4)
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=r"t\[0\]@2, key a, attempt 1: ValueError"):
        app.stop()
    assert lab.committed() == 2


def test_skipped_records_are_passed_counted_and_told(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """In the middle of a key, in order, with the reason."""

    def work(batch: ehkafka.Batch) -> None:
        for record in batch:
            if record.offset() in (1, 3):
                batch.skip(record, "a test record")

    store = Store(work)
    lab.produce("a a a b")
    app = store_app(store, batch_records_max=4)
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 4)
    wait_for(lambda: len(events.of(RecordSkipped)) == 2)
    snapshot = app.snapshot()
    assert (snapshot.finished_records, snapshot.skipped_records) == (2, 2)
    assert {(e.offset, e.key, e.reason) for e in events.of(RecordSkipped)} == {
        (1, "a", "a test record"),
        (3, "b", "a test record"),
    }
    app.stop()


def test_a_dead_letter_of_one_record_leaves_the_others_alone(lab: Any, store_app: Any, wait_for: Any) -> None:
    """F6, F12: one letter, with its attempts; the later one of its key runs after it."""
    letters: list[Any] = []
    store = Store(fail_offsets(1))
    lab.produce("a b c b")
    app = store_app(
        store,
        batch_records_max=4,
        wait_s_max=0.1,
        retry=ehkafka.Retry(attempts=2, first_s=0.02),
        on_failure=ehkafka.DeadLetter(letters.append),
    )
    app.start()
    wait_for(lambda: lab.committed() == 4)
    app.stop()
    (letter,) = letters
    assert app.snapshot().dead_lettered_records == 1
    assert store.offsets() == [[0, 1, 3, 2], [1, 3], [3]]
    assert "no luck with 1" in str(dict(letter.headers).values())


@pytest.mark.parametrize(
    ("error", "ends"),
    [(ehkafka.SkipRecord("no"), "skipped"), (ehkafka.RejectRecord("bad"), "held")],
)
def test_signals_mean_what_they_mean_for_single_records(
    lab: Any, store_app: Any, wait_for: Any, error: Exception, ends: str
) -> None:
    """fail(record, SkipRecord(…)) skips; RejectRecord spends no further attempt."""
    store = Store(lambda batch: [batch.fail(r, error) for r in batch if r.offset() == 1])
    lab.produce("a b c")
    app = store_app(
        store,
        batch_records_max=3,
        retry=ehkafka.Retry(attempts=9, first_s=0.01),
        on_failure=ehkafka.Hold(),
        workers=1,
    )
    app.start()
    wait_for(lambda: lab.committed() == (3 if ends == "skipped" else 1))
    assert app.snapshot().skipped_records == (ends == "skipped")
    assert store.attempts[0, 1] == [1]
    app.stop()


def test_wrong_results_are_refused_inside_the_handler(lab: Any, store_app: Any, wait_for: Any) -> None:
    """A record of another batch, twice, too late: each is an exception where it is said."""
    said: list[str] = []
    kept: list[ehkafka.Batch] = []

    def work(batch: ehkafka.Batch) -> None:
        if kept:
            for say in (
                lambda: batch.fail(kept[0][0], ValueError()),
                lambda: kept[0].skip(kept[0][0], "late"),
                lambda: (batch.skip(batch[0], "x"), batch.skip(batch[0], "y")),
            ):
                try:
                    say()
                except (ValueError, RuntimeError) as error:
                    said.append(str(error))
        kept.append(batch)

    store = Store(work)
    app = store_app(store, batch_records_max=1)
    lab.produce("a b")
    app.start()
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert [words.partition(": ")[0].partition(" has a")[0] for words in said] == [
        "t[0]@0 is not in this batch, so it cannot get a result here",
        "t[0]@0",
        "t[0]@1",
    ]


def test_a_record_of_a_batch_cannot_be_deferred(lab: Any, store_app: Any) -> None:
    """It fails with an explanation instead of hanging."""
    store = Store(lambda batch: [record.defer() for record in batch if record.offset() == 1])
    lab.produce("a b")
    app = store_app(store, batch_records_max=2)
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=r"t\[0\]@1, .*cannot be deferred"):
        app.stop()
    assert lab.committed() == 1


# --- a handler that raises ---


def raise_for(*offsets: int, error: type[BaseException] = ValueError) -> Any:
    """Raise for a batch with one of these offsets."""

    def work(batch: ehkafka.Batch) -> None:
        if found := [record.offset() for record in batch if record.offset() in offsets]:
            raise error(f"no luck with {found}")

    return work


def test_a_raise_is_narrowed_down_to_its_record_and_costs_nobody_else(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """One poison record among 64: only it spends attempts and goes to the dead letters."""
    letters: list[Any] = []
    store = Store(raise_for(37))
    lab.produce(" ".join(f"k{n}" for n in range(64)))
    app = store_app(
        store,
        batch_records_max=64,
        workers=2,
        retry=ehkafka.Retry(attempts=3, first_s=0.02),
        on_failure=ehkafka.DeadLetter(letters.append),
    )
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 64)
    app.stop()
    assert len(letters) == 1
    snapshot = app.snapshot()
    assert (snapshot.finished_records, snapshot.dead_lettered_records) == (63, 1)
    assert (
        max(attempt for where in store.attempts if where != (0, 37) for attempt in store.attempts[where]) == 1
    )
    assert max(store.attempts[0, 37]) == 3
    raised = events.of(BatchRaised)
    assert [(e.records, e.next_records_max) for e in raised] == [
        (64, 32),
        (32, 16),
        (16, 8),
        (8, 4),
        (4, 2),
        (2, 1),
    ]
    assert len(store.batches) <= 2 * 6 + 3


def test_a_raise_that_stops_the_app_names_the_record_to_blame(lab: Any, store_app: Any) -> None:
    """With Stop(), the error's text is not about some record of the batch but about the one."""
    store = Store(raise_for(5))
    lab.produce("a b c a b c a b")
    app = store_app(store, batch_records_max=8, workers=1)
    app.start()
    assert app.wait(10.0)
    with pytest.raises(
        ehkafka.errors.HandlerFailedError, match=r"t\[0\]@5, key c, attempt 1: ValueError: no luck"
    ):
        app.stop()
    assert lab.committed() in range(6)


def test_a_handler_that_always_raises_holds_every_key_at_its_first_record(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """Each key's first record spends its one attempt, none of the later ones does."""
    store = Store(raise_for(*range(9)))
    lab.produce("a b c a b c a b c")
    app = store_app(store, batch_records_max=9, on_failure=ehkafka.Hold())
    app.add_hook(events)
    app.start()
    wait_for(lambda: len(events.of(HandlerFailed)) == 3)
    assert sorted(event.offset for event in events.of(HandlerFailed)) == [0, 1, 2]
    app.stop()
    assert lab.committed() in (None, 0)


def test_a_raise_then_success_loses_nothing(lab: Any, store_app: Any, wait_for: Any) -> None:
    """A store that is down for its first three calls: all records arrive, in order, without an attempt."""
    calls = 0

    def work(_batch: ehkafka.Batch) -> None:
        nonlocal calls
        calls += 1
        if calls <= 3:
            raise ConnectionError("the store is away")

    store = Store(work)
    lab.produce("a b c d " * 16)
    app = store_app(store, batch_records_max=64, workers=1, wait_s_max=0.1)
    app.start()
    wait_for(lambda: lab.committed() == 64)
    app.stop()
    assert store.finished == 64
    assert {attempt for attempts in store.attempts.values() for attempt in attempts} == {1}


def test_retry_later_lets_the_whole_batch_come_again(lab: Any, store_app: Any, wait_for: Any) -> None:
    """The handler knows that no record is to blame: no halves, nothing before its time."""
    times_s: list[float] = []

    def work(_batch: ehkafka.Batch) -> None:
        times_s.append(time.monotonic())
        if len(times_s) == 1:
            raise ehkafka.RetryLater(0.3, "the store is away")

    store = Store(work)
    lab.produce("a b c a")
    app = store_app(store, batch_records_max=4, wait_s_max=0.1, workers=1)
    app.start()
    wait_for(lambda: lab.committed() == 4)
    app.stop()
    assert times_s[1] - times_s[0] >= 0.3
    assert store.sizes == [4, 4]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
def test_f10_an_exit_in_a_batch_stops_the_app_and_commits_nothing_of_it(
    lab: Any, store_app: Any, error: type[BaseException]
) -> None:
    """F10: no verdict on any record, no second call."""
    letters: list[Any] = []
    store = Store(raise_for(2, error=error))
    lab.produce("a b c d")
    app = store_app(store, batch_records_max=4, on_failure=ehkafka.DeadLetter(letters.append))
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=error.__name__):
        app.stop()
    assert lab.committed() in (None, 0)
    assert letters == []
    assert store.sizes == [4]


def test_o12_a_record_whose_order_function_raises_never_reaches_the_handler(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """O12: it takes the failure path alone; the rest of its batch is handled."""

    def order_by(record: Any) -> Any:
        if record.offset() == 2:
            raise KeyError("no customer in it")
        return record.key()

    store = Store()
    lab.produce("a b c d")
    app = store_app(store, batch_records_max=4, order_by=order_by, on_failure=ehkafka.Skip())
    app.start()
    wait_for(lambda: lab.committed() == 4)
    app.stop()
    assert sorted(store.offsets()[0]) == [0, 1, 3]


# --- stop and revoke ---


def test_l1_a_stop_hands_the_waiting_batch_over_at_once(lab: Any, store_app: Any, wait_for: Any) -> None:
    """L1: an hour to wait is not waited; all of it ends and is committed."""
    store = Store()
    lab.produce("a b c a")
    app = store_app(store, batch_records_max=100, wait_s_max=3600.0)
    app.start()
    wait_for(lambda: app.snapshot().received_records == 4)
    time.sleep(0.1)
    assert store.batches == []
    began_s = unstolen_s()
    app.stop(drain="all")
    assert unstolen_s() - began_s < 3.0
    assert lab.committed() == 4
    assert store.sizes == [4]


def test_l1_what_runs_and_what_waits_ends_at_a_stop(lab: Any, store_app: Any, wait_for: Any) -> None:
    """L1: a running batch and its followers; a restart repeats nothing."""
    store = Store(lambda _batch: time.sleep(0.05))
    lab.produce("a b c d " * 30)
    app = store_app(store, batch_records_max=7, workers=2)
    app.start()
    wait_for(lambda: store.batches)
    app.stop()
    handled = Counter(record for batch in store.batches for record in batch)
    assert set(handled.values()) == {1}
    assert lab.committed() == len(handled)


def test_l2_a_stop_without_drain_ends_what_runs_only(lab: Any, store_app: Any, wait_for: Any) -> None:
    """L2: the running batch ends, its followers too, and is committed; the rest neither starts nor counts."""
    store = Store()
    store.gate.clear()
    lab.produce("a a b a b c")
    app = store_app(store, batch_records_max=4, workers=1)
    app.start()
    wait_for(lambda: store.running == 1)
    lab.produce("a b c")
    wait_for(lambda: app.snapshot().received_records == 9)
    threading.Timer(0.3, store.gate.set).start()
    app.stop(drain=False)
    assert len(store.batches) == 1
    assert lab.committed() == min(set(range(9)) - {offset for _, offset in store.batches[0]})


def test_l3_a_batch_that_never_returns_is_named_at_the_deadline(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """L3: the stop ends in time and says where its keys stand."""
    store = Store()
    store.gate.clear()
    lab.produce("a b")
    app = store_app(store, batch_records_max=2)
    app.start()
    wait_for(lambda: store.running == 1)
    began_s = unstolen_s()
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key a, t\[0\]@1 key b"):
        app.stop(timeout_s=0.5)
    assert unstolen_s() - began_s < 2.0
    assert lab.committed() in (None, 0)


def test_a_revoke_while_a_batch_fills_starts_nothing_of_it(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Collected and not started: it is given back at once, and the next owner has it once."""
    slow = {"session.timeout.ms": 3_000}
    first, second = Store(), Store()
    for partition in range(4):
        lab.produce("a b c", topic="t4", partition=partition)
    one = store_app(first, "t4", batch_records_max=100, wait_s_max=3600.0, consumer=slow)
    two = store_app(second, "t4", batch_records_max=100, wait_s_max=0.1, consumer=slow)
    one.start()
    wait_for(lambda: one.snapshot().received_records == 12)
    two.start()
    wait_for(lambda: second.finished == 6)
    assert first.batches == []
    one.stop(drain="all")
    assert first.finished == 6
    two.stop()
    assert [lab.committed(partition, topic="t4") for partition in range(4)] == [3] * 4


def test_r1_revokes_of_busy_members_repeat_nothing(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """R1: what lies below the highest started record of a running batch is finished within the revoke."""
    first, second = (Store(lambda _batch: time.sleep(0.05)) for _ in range(2))
    for partition in range(4):
        lab.produce(" ".join(f"k{n % 12}" for n in range(300)), topic="t4", partition=partition)
    options = {"assignor": "cooperative-sticky", "workers": 3, "batch_records_max": 9, "wait_s_max": 0.05}
    # The embedded broker drops who is not back within the session time-out less one second.
    options |= {
        "backlog_records_max": 200,
        "consume_records_max": 20,
        "consumer": {"session.timeout.ms": 2_500},
    }
    one, two = store_app(first, "t4", **options), store_app(second, "t4", **options)
    two.add_hook(events)
    one.start()
    wait_for(lambda: first.finished > 50)
    two.start()
    # While it rebalances the embedded broker takes no commit, so not a stop's last one either.
    wait_for(lambda: len(events.of(CommitAcknowledged)) >= 3)
    two.stop()
    wait_for(lambda: first.finished + second.finished >= 1_200, 30.0)
    one.stop()
    handled = Counter(record for store in (first, second) for batch in store.batches for record in batch)
    assert len(handled) == 1_200
    assert set(handled.values()) == {1}


def test_r2_a_batch_that_ends_after_its_epoch_is_dropped_and_told(
    lab: Any, store_app: Any, wait_for: Any, events: Any
) -> None:
    """R2: its results, failures included, count for nothing; the records are handled again."""
    store = Store(lambda batch: batch.fail(batch[-1], ValueError()) if len(store.batches) == 1 else None)
    store.gate.clear()
    lab.produce("a b a")
    app = store_app(store, batch_records_max=3, workers=2, wait_s_max=0.2)
    app.add_hook(events)
    app.start()
    wait_for(lambda: store.running == 1)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: store.running == 2)
    store.gate.set()
    wait_for(lambda: lab.committed() == 3)
    assert app.snapshot().stale_records >= 1
    app.stop()
    assert events.of(StaleResult)


# --- all of it ---


def test_ten_thousand_records_with_random_results_keep_every_promise(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """10 000 records, 4 partitions, Zipf keys: fail, skip and raise at random; the checker finds nothing."""
    rng = random.Random(11)
    history = CheckingHistory()

    def work(batch: ehkafka.Batch) -> None:
        if rng.random() < 0.02:
            raise ConnectionError("the store is away")
        for record in batch:
            chance = rng.random()
            if chance < 0.01:
                batch.fail(record, ValueError("once more"))
            elif chance < 0.02:
                batch.skip(record, "not wanted")

    store = Store(work)
    for partition in range(4):
        keys = " ".join(f"k{int(rng.paretovariate(0.8)) % 300}" for _ in range(2_500))
        lab.produce(keys, topic="t4", partition=partition)
    app = store_app(
        store,
        "t4",
        batch_records_max=60,
        wait_s_max=0.05,
        workers=4,
        retry=ehkafka.Retry(attempts=1_000, first_s=0.005, max_s=0.02),
        history=history,
    )
    app.start()
    wait_for(lambda: [lab.committed(p, topic="t4") for p in range(4)] == [2_500] * 4, 60.0)
    app.stop()
    assert store.wrong == []
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    assert verdict.finished == 10_000


# --- registration ---


def new_app(**settings: Any) -> Any:
    """An app that reaches nothing."""
    return ehkafka.App(
        group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="earliest", **settings
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_records_max": 0}, "batch_records_max=0; use a number from 1"),
        ({"batch_records_max": 2.5}, "batch_records_max=2.5"),
        ({"batch_records_max": True}, "batch_records_max=True"),
        ({"batch_records_min": 501}, "batch_records_min=501; use a number from 1 to batch_records_max .500."),
        ({"batch_records_min": 0}, "batch_records_min=0"),
        ({"batch_bytes_max": 0}, "batch_bytes_max=0; use a number of bytes"),
        ({"wait_s_max": -1}, "wait_s_max=-1; use a number of seconds"),
        ({"wait_s_max": float("nan")}, "wait_s_max=nan"),
        ({"wait_s_max": "1"}, "wait_s_max='1'"),
        ({"unique_keys": 1}, "unique_keys=1; use True or False"),
        ({"workers": 0}, "workers=0"),
        ({"workers": 10_001}, "workers=10001"),
        ({"retry": 3}, "retry=3"),
        ({"order_by": "key"}, "order_by='key' is not callable"),
    ],
)
def test_options_that_cannot_work_are_refused_where_they_stand(options: dict[str, Any], words: str) -> None:
    """Value and fix, at registration."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        new_app().batch_handler("t", **options)(lambda _batch: None)


class _Class:
    """A class handler."""

    def process(self, _batch: ehkafka.Batch) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("handler", "words"), [(_Class, "one instance per partition"), (3, "not callable")])
def test_handlers_that_cannot_take_batches_are_refused(handler: Any, words: str) -> None:
    """With what to do instead."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        new_app().batch_handler("t")(handler)


def test_a_batch_larger_than_the_backlog_is_refused_at_the_start() -> None:
    """It would never fill: every batch would wait in vain."""
    app = new_app(backlog_records_max=1_000)
    app.batch_handler("t", batch_records_max=2_000)(lambda _batch: None)
    with pytest.raises(
        ehkafka.errors.ConfigurationError, match="waits for 2000 records, but backlog_records_max=1000"
    ):
        app.start()


def test_one_topic_has_one_handler_of_either_kind() -> None:
    """A batch handler beside a handler of the same topic is refused."""
    app = new_app()
    app.handler("t")(lambda _record: None)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="one handler per topic"):
        app.batch_handler("t")(lambda _batch: None)


def test_middleware_wraps_a_batch_handler_with_the_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Its first argument is the batch; what it raises fails the batch."""
    seen: list[int] = []
    store = Store()
    app = store_app(store, batch_records_max=2)

    @app.use
    def middleware(batch: ehkafka.Batch, call_next: Any) -> Any:
        seen.append(len(batch))
        return call_next(batch)

    lab.produce("a b")
    app.start()
    wait_for(lambda: store.finished == 2)
    app.stop()
    assert seen == [2]


# --- async ---


class AsyncStore:
    """An async batch handler that says where it runs and who runs at once."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.sizes: list[int] = []
        self.running = self.running_max = 0
        self.threads: set[str] = set()

    async def __call__(self, batch: ehkafka.Batch) -> None:
        """Handle a batch; fail its first record once."""
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(0.02)
        self.running -= 1
        self.sizes.append(len(batch))
        if self.error is not None:
            raise self.error
        if batch[0].attempt == 1 and len(self.sizes) == 1:
            batch.fail(batch[0], ValueError("once more"))


def test_async_batches_run_side_by_side_on_one_loop(lab: Any, wait_for: Any) -> None:
    """O8, L1: three at a time, results as for plain functions; a stop from within ends the app."""
    store = AsyncStore()
    lab.produce(" ".join(f"k{n}" for n in range(60)))
    app = lab.app()
    retry = ehkafka.Retry(attempts=2, first_s=0.01)
    app.batch_handler("t", batch_records_max=5, workers=3, wait_s_max=0.05, retry=retry)(store)
    app.start()
    wait_for(lambda: lab.committed() == 60)
    app.stop()
    assert store.running_max == 3
    assert sum(store.sizes) >= 61
    assert store.threads == {"ehkafka-AsyncStore-loop"}


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_f10_an_async_batch_that_wants_to_leave_stops_the_app(lab: Any, error: BaseException) -> None:
    """F10: the loop survives it, the app ends visibly and commits nothing of it."""
    lab.produce("a b")
    app = lab.app()
    app.batch_handler("t", batch_records_max=2, on_failure=ehkafka.Skip())(AsyncStore(error))
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=type(error).__name__):
        app.stop()
    assert lab.committed() in (None, 0)


def test_an_async_batch_may_ask_for_the_stop_itself(lab: Any, wait_for: Any) -> None:
    """It would wait for itself: it returns at once, and the batch counts."""
    app = lab.app()

    @app.batch_handler("t", batch_records_max=2)
    async def last(batch: ehkafka.Batch) -> None:
        assert len(batch) == 2
        app.stop()

    lab.produce("a b")
    app.start()
    assert app.wait(10.0)
    app.stop()
    assert lab.committed() == 2
