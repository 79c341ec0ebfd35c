"""What each result of a batch leads to: failed, skipped and dead-lettered records, a handler that raises."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ehkafka
from ehkafka.events import BatchRaised, HandlerFailed, RecordSkipped
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until

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


def test_a_failed_record_and_the_later_ones_of_its_key_come_again(lab: Any) -> None:
    """The others are done; key order is kept; only the failed one spends an attempt."""
    store = lab.store(fail_offsets(2, times=2))
    lab.produce("a b a c a b")
    retry = ehkafka.Retry(attempts=5, first_s=0.05)
    lab.start(store, batch_records_max=6, wait_s_max=0.1, workers=1, retry=retry)
    wait_until(lambda: lab.committed() == 6)
    assert [sorted(offsets) for offsets in store.offsets()] == [[0, 1, 2, 3, 4, 5], [2, 4], [2, 4]]
    assert [offset for offset in store.offsets()[0] if offset in (0, 2, 4)] == [0, 2, 4]
    assert store.attempts[0, 2] == [1, 2, 3]
    assert store.attempts[0, 4] == [1, 1, 1]
    assert store.attempts[0, 0] == store.attempts[0, 3] == [1]


def test_by_default_a_failed_record_stops_the_app_and_is_named(lab: Any) -> None:
    """What came before it in its key is done and committed."""
    lab.produce("a a a a")
    app = lab.start(lab.store(fail_offsets(2)), batch_records_max=4)
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\]@2, key a, attempt 1: ValueError")
    assert lab.committed() == 2


def test_skipped_records_are_passed_counted_and_reported(lab: Any, events: Any) -> None:
    """In the middle of a key, in order, with the reason."""
    store = lab.store(lambda batch: [batch.skip(r, "a test record") for r in batch if r.offset() in (1, 3)])
    lab.produce("a a a b")
    app = lab.start(store, batch_records_max=4)
    wait_until(lambda: lab.committed() == 4 and len(events.of(RecordSkipped)) == 2)
    snapshot = app.snapshot()
    assert (snapshot.finished_records, snapshot.skipped_records) == (2, 2)
    skipped = {(e.offset, e.key, e.reason) for e in events.of(RecordSkipped)}
    assert skipped == {(1, "a", "a test record"), (3, "b", "a test record")}


def test_a_dead_letter_of_one_record_leaves_the_others_alone(lab: Any) -> None:
    """One letter, with its attempts; the later one of its key runs after it."""
    letters: list[Any] = []
    store = lab.store(fail_offsets(1))
    lab.produce("a b c b")
    policy = {
        "retry": ehkafka.Retry(attempts=2, first_s=0.02),
        "on_failure": ehkafka.DeadLetter(letters.append),
    }
    app = lab.start(store, batch_records_max=4, wait_s_max=0.1, **policy)
    wait_until(lambda: lab.committed() == 4)
    app.stop()
    (letter,) = letters
    assert app.snapshot().dead_lettered_records == 1
    assert [sorted(offsets) for offsets in store.offsets()] == [[0, 1, 2, 3], [1, 3], [3]]
    assert "no luck with 1" in str(dict(letter.headers).values())


@pytest.mark.parametrize(
    ("error", "ends"),
    [(ehkafka.SkipRecord("no"), "skipped"), (ehkafka.RejectRecord("bad"), "held")],
)
def test_signals_mean_what_they_mean_for_single_records(lab: Any, error: Exception, ends: str) -> None:
    """fail(record, SkipRecord(…)) skips; RejectRecord spends no further attempt."""
    store = lab.store(lambda batch: [batch.fail(r, error) for r in batch if r.offset() == 1])
    lab.produce("a b c")
    options = {"retry": ehkafka.Retry(attempts=9, first_s=0.01), "on_failure": ehkafka.Hold(), "workers": 1}
    app = lab.start(store, batch_records_max=3, **options)
    wait_until(lambda: lab.committed() == (3 if ends == "skipped" else 1))
    assert app.snapshot().skipped_records == (ends == "skipped")
    assert store.attempts[0, 1] == [1]


def test_a_record_of_a_batch_cannot_be_deferred(lab: Any) -> None:
    """It fails with an explanation instead of hanging."""
    store = lab.store(lambda batch: [record.defer() for record in batch if record.offset() == 1])
    lab.produce("a b")
    app = lab.start(store, batch_records_max=2)
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\]@1, .*cannot be deferred")
    assert lab.committed() == 1


# --- a handler that raises ---


def raise_for(*offsets: int) -> Any:
    """Raise for a batch with one of these offsets."""

    def work(batch: ehkafka.Batch) -> None:
        if found := [record.offset() for record in batch if record.offset() in offsets]:
            raise ValueError(f"no luck with {found}")

    return work


def test_a_raise_is_narrowed_down_to_its_record_and_costs_no_other(lab: Any, events: Any) -> None:
    """One poison record among 64: only it spends attempts and goes to the dead letters."""
    letters: list[Any] = []
    store = lab.store(raise_for(37))
    lab.produce(" ".join(f"k{n}" for n in range(64)))
    policy = {
        "retry": ehkafka.Retry(attempts=3, first_s=0.02),
        "on_failure": ehkafka.DeadLetter(letters.append),
    }
    app = lab.start(store, batch_records_max=64, workers=2, **policy)
    wait_until(lambda: lab.committed() == 64)
    app.stop()
    assert len(letters) == 1
    snapshot = app.snapshot()
    assert (snapshot.finished_records, snapshot.dead_lettered_records) == (63, 1)
    assert {max(tries) for where, tries in store.attempts.items() if where != (0, 37)} == {1}
    assert max(store.attempts[0, 37]) == 3
    halves = [(64, 32), (32, 16), (16, 8), (8, 4), (4, 2), (2, 1)]
    assert [(e.records, e.next_records_max) for e in events.of(BatchRaised)] == halves
    assert len(store.batches) <= 2 * 6 + 3


def test_a_raise_that_stops_the_app_names_the_record_to_blame(lab: Any) -> None:
    """With Stop(), the error's text is not about some record of the batch but about the one."""
    lab.produce("a b c a b c a b")
    app = lab.start(lab.store(raise_for(5)), batch_records_max=8, workers=1)
    ends_with(app, ehkafka.errors.HandlerFailedError, r"t\[0\]@5, key c, attempt 1: ValueError: no luck")
    assert lab.committed() in range(6)


def test_a_handler_that_always_raises_holds_every_key_at_its_first_record(lab: Any, events: Any) -> None:
    """Each key's first record spends its one attempt, none of the later ones does."""
    lab.produce("a b c a b c a b c")
    app = lab.start(lab.store(raise_for(*range(9))), batch_records_max=9, on_failure=ehkafka.Hold())
    wait_until(lambda: len(events.of(HandlerFailed)) == 3)
    assert sorted(event.offset for event in events.of(HandlerFailed)) == [0, 1, 2]
    app.stop()
    assert lab.committed() in (None, 0)


@pytest.mark.parametrize(
    ("error", "times", "sizes"),
    [
        (ConnectionError("the store is away"), 2, None),
        (ehkafka.RetryLater(0.3, "the store is away"), 1, [4, 4]),
    ],
)
def test_a_raise_then_success_loses_nothing(lab: Any, error: Exception, times: int, sizes: Any) -> None:
    """All records arrive without an attempt; where no record is blamed, as the same batch and in time."""
    times_s: list[float] = []

    def work(_batch: ehkafka.Batch) -> None:
        times_s.append(time.monotonic())
        if len(times_s) <= times:
            raise error

    store = lab.store(work)
    lab.produce("a b c a")
    lab.start(store, batch_records_max=4, wait_s_max=0.1, workers=1)
    wait_until(lambda: lab.committed() == 4)
    assert store.finished == 4
    if sizes:
        assert store.sizes == sizes
        assert times_s[1] - times_s[0] >= 0.3
    else:
        assert {attempt for attempts in store.attempts.values() for attempt in attempts} == {1}


def test_a_record_whose_order_function_raises_never_reaches_the_handler(lab: Any) -> None:
    """It takes the failure path alone; the rest of its batch is handled."""

    def order_by(record: Any) -> Any:
        if record.offset() == 2:
            raise KeyError("no customer in it")
        return record.key()

    store = lab.store()
    lab.produce("a b c d")
    lab.start(store, batch_records_max=4, order_by=order_by, on_failure=ehkafka.Skip())
    wait_until(lambda: lab.committed() == 4)
    assert sorted(store.offsets()[0]) == [0, 1, 3]
