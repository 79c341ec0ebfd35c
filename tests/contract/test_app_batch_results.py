"""What each result of a batch leads to: failed, skipped and dead-lettered records, a handler that raises."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import BatchRaised, HandlerFailed, RecordSkipped
from tests.contract.batch_store import Store

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


def test_a_failed_record_and_the_later_ones_of_its_key_come_again(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """The others are done; key order is kept; only the failed one spends an attempt."""
    store = Store(fail_offsets(2, times=2))
    lab.produce("a b a c a b")
    app = store_app(
        store, batch_records_max=6, wait_s_max=0.1, workers=1, retry=ehkafka.Retry(attempts=5, first_s=0.05)
    )
    app.start()
    wait_for(lambda: lab.committed() == 6)
    app.stop()
    assert [sorted(offsets) for offsets in store.offsets()] == [[0, 1, 2, 3, 4, 5], [2, 4], [2, 4]]
    assert [offset for offset in store.offsets()[0] if offset in (0, 2, 4)] == [0, 2, 4]
    assert store.attempts[0, 2] == [1, 2, 3]
    assert store.attempts[0, 4] == [1, 1, 1]
    assert store.attempts[0, 0] == store.attempts[0, 3] == [1]


def test_a_failed_record_without_retry_holds_its_key_alone(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Under Hold() nothing at or above it is committed, other keys go on."""
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
    """What came before it in its key is done and committed."""
    store = Store(fail_offsets(2))
    lab.produce("a a a a")
    app = store_app(store, batch_records_max=4)
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=r"t\[0\]@2, key a, attempt 1: ValueError"):
        app.stop()
    assert lab.committed() == 2


def test_skipped_records_are_passed_counted_and_reported(
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
    """One letter, with its attempts; the later one of its key runs after it."""
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
    assert [sorted(offsets) for offsets in store.offsets()] == [[0, 1, 2, 3], [1, 3], [3]]
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
    seen: list[str] = []
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
                    seen.append(str(error))
        kept.append(batch)

    store = Store(work)
    app = store_app(store, batch_records_max=1)
    lab.produce("a b")
    app.start()
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert [words.partition(": ")[0].partition(" has a")[0] for words in seen] == [
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
def test_an_exit_in_a_batch_stops_the_app_and_commits_nothing_of_it(
    lab: Any, store_app: Any, error: type[BaseException]
) -> None:
    """Nothing that any record did, no second call."""
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


def test_a_record_whose_order_function_raises_never_reaches_the_handler(
    lab: Any, store_app: Any, wait_for: Any
) -> None:
    """It takes the failure path alone; the rest of its batch is handled."""

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
