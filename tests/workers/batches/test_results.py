"""What becomes of a batch's records when its handler returns, names failures, or raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import BatchRaised
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.records import Outcome
from ehkafka.records.batch import Failed, Skipped
from ehkafka.records.signals import RetryLater
from tests.kit.inbox_bench import left_of
from tests.workers.batches.batch_bench import BatchBench

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.records.batch import Result

pytestmark = pytest.mark.usefixtures("_keys")

ERROR = ValueError("no luck")


def failing(*records: str) -> Callable[[list[str]], Mapping[int, Result]]:
    """Report these as failed."""
    return lambda batch: {place: Failed(ERROR) for place, record in enumerate(batch) if record in records}


def raising(*records: str) -> Callable[[list[str]], Mapping[int, Result]]:
    """Raise for a batch with one of these."""

    def handle(batch: list[str]) -> Mapping[int, Result]:
        if not set(batch).isdisjoint(records):
            raise ERROR
        return {}

    return handle


# --- records that failed or are skipped ---------------------------------------------------------------


def test_a_failed_record_and_the_later_ones_of_its_key_come_again() -> None:
    """In order, before what was received meanwhile; only the failed one has spent an attempt."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 a2 b3")
    bench.handle, bench.decide = failing("a1"), lambda _record: RetryHead(5.0, "later")
    assert bench.run() == ["a0", "a1", "a2", "b3"]
    bench.inboxes.router.note_all()
    assert (epoch.watermark(), epoch.tally.finished_records, epoch.tally.parked_records) == (1, 2, 2)
    bench.receive(epoch, "a4")
    assert bench.run() is None
    bench.handle = failing("a2")
    bench.check(5.0)
    assert bench.run() == ["a1", "a2"]
    assert bench.failed == [("a1", 1), ("a2", 1)]
    bench.handle = failing()
    bench.check(10.0)
    assert bench.run_all() == [["a2"]]
    assert bench.run_all() == [["a4"]]
    bench.inboxes.router.note_all()
    assert bench.is_empty()
    assert not bench.inboxes.router.attempts


def test_results_of_what_comes_again_count_for_nothing() -> None:
    """What was reported of later records of the key is forgotten: they are handled again."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 a2")
    bench.handle = lambda _batch: {0: Failed(ERROR), 1: Skipped("no"), 2: Failed(ERROR)}
    bench.decide = lambda _record: SkipHead("failed")
    bench.run()
    assert bench.failed == [("a0", 1)]
    assert epoch.tally.skipped_records == 1
    bench.handle = failing()
    assert bench.run() == ["a1", "a2"]


def test_skipped_records_are_counted_as_such() -> None:
    """The commit passes them."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 a2")
    bench.handle = lambda _batch: {1: Skipped("not ours")}
    bench.run()
    for tally in (epoch.tally, bench.inboxes.tally):
        assert (tally.finished_records, tally.skipped_records) == (2, 1)
    assert epoch.watermark() == 3
    assert bench.is_empty()


def test_each_failed_key_is_decided_for_itself() -> None:
    """One waits, one is skipped, one goes to the dead letters; what waits of each key comes along."""
    bench = BatchBench(records_max=6)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 a4 b5 c6 d7 a8")
    decisions: dict[str, Any] = {
        "a0": HoldHead("held"),
        "b1": SkipHead("skipped"),
        "c2": AwaitHead("asked", lambda _ticket: None, "hold_key"),
    }
    bench.handle, bench.decide = failing(*decisions), decisions.__getitem__
    assert bench.run() == ["a0", "b1", "c2", "d3", "a4", "b5"]
    bench.handle = failing()
    assert sorted(record for batch in bench.run_all() for record in batch) == ["b5", "d7"]
    held = bench.held("c", epoch)
    assert held.ticket is not None
    bench.inboxes.waiting.answer(held.ticket, Outcome.DEAD_LETTERED, 0.0)
    bench.inboxes.router.note_all()
    assert left_of(epoch) == ["a0", "a4", "c6", "a8"]
    assert epoch.tally.skipped_records == 1


def test_many_failures_cost_one_pass_over_what_waits() -> None:
    """Not one for each key: a store that is away fails all of them."""
    bench = BatchBench(records_max=200)
    epoch = bench.assign()
    bench.receive(epoch, " ".join(f"{chr(256 + n % 200)}{n}" for n in range(2_000)))
    inbox, looks = bench.inboxes.inboxes[0], 0
    take_back = type(inbox).take_back

    def counted(one: Any) -> Any:
        nonlocal looks
        looks += 1
        return take_back(one)

    bench.decide = lambda _record: RetryHead(1.0, "later")
    bench.handle = lambda batch: dict.fromkeys(range(len(batch)), Failed(ERROR))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(inbox), "take_back", counted)
        bench.run()
    assert looks <= 2  # one of them to read the keys
    assert len(bench.waiting.held) == 200
    assert not inbox.q


# --- a handler that raises ----------------------------------------------------------------------------


def test_a_batch_that_raised_comes_again_in_halves_until_the_culprit_is_alone() -> None:
    """No attempt is spent on the way, and none by another record."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4 f5 g6 h7")
    bench.handle = raising("f5")
    bench.run_all()
    assert [len(batch) for batch in bench.batches] == [8, 4, 4, 2, 1, 1, 2]
    assert bench.failed == [("f5", 1)]
    assert [(event.records, event.next_records_max) for event in bench.events] == [(8, 4), (4, 2), (2, 1)]
    assert all(type(event) is BatchRaised for event in bench.events)
    bench.inboxes.router.note_all()
    assert (epoch.watermark(), epoch.tally.finished_records) == (5, 7)


def test_a_retried_culprit_stays_alone() -> None:
    """Fresh records do not join it, and their batches are as large as ever."""
    bench = BatchBench(records_max=4)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.handle, bench.decide = raising("a0"), lambda _record: RetryHead(1.0, "later")
    bench.run_all()
    bench.receive(epoch, "c2 d3 e4")
    bench.batches.clear()
    bench.check(1.0)
    bench.handle = raising()
    assert bench.run_all() == [["c2", "d3", "e4"], ["a0"]]
    bench.receive(epoch, "a5 b6")
    assert bench.run_all() == [["a5", "b6"]]
    assert not bench.inboxes.router.attempts


def test_fresh_records_do_not_join_suspects() -> None:
    """What came after the raise goes in batches of its own."""
    bench = BatchBench(records_max=4)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 e2")
    bench.handle = raising("a0")
    bench.run()
    bench.receive(epoch, "c3 d4")
    bench.handle = raising()
    assert bench.run_all() == [["a0"], ["b1"], ["e2"], ["c3", "d4"]]


def test_retry_later_lets_the_same_records_come_again_together() -> None:
    """No halves, and no other record joins them: neither fresh ones nor later ones of their keys."""
    bench = BatchBench(records_max=4)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 c3 b4 a5")

    def away(_batch: list[str]) -> Mapping[int, Result]:
        raise RetryLater(3.0, "the store is away")

    bench.handle, bench.decide = away, lambda _record: RetryHead(3.0, "later", is_asked=True)
    bench.run()
    assert bench.failed == [("a0", 1), ("b1", 1), ("c3", 1)]
    assert not bench.events
    assert bench.run() is None
    bench.check(3.0)
    assert bench.run() == ["a0", "a2", "b1", "c3"]
    bench.handle = failing()
    bench.receive(epoch, "d6")
    bench.check(6.0)
    assert bench.run_all() == [["d6"], ["a0", "a2", "b1", "c3"]]
    assert bench.run_all() == [["a5", "b4"]]
    bench.inboxes.router.note_all()
    assert bench.is_empty()
    assert not bench.inboxes.router.attempts


def test_an_exit_is_decided_once_and_holds_all_keys() -> None:
    """The app stops for it; until then none of these starts again."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2")

    def leave(_batch: list[str]) -> Mapping[int, Result]:
        raise SystemExit(3)

    bench.handle = leave
    bench.run()
    assert bench.failed == [("a0", 1)]
    assert bench.run_all() == []
    assert left_of(epoch) == ["a0", "b1", "a2"]


def test_nothing_is_known_of_narrowed_records_that_are_gone() -> None:
    """Memory follows what is there, not what ever raised."""
    bench = BatchBench(records_max=3)
    bench.handle = raising("a0")
    for _ in range(5):
        epoch = bench.assign()
        bench.receive(epoch, "a0 b1 c2")
        bench.run()
        assert len(bench.inboxes.router.attempts) == 3
        bench.inboxes.end([epoch])
        assert not bench.inboxes.router.attempts


# --- drains and ends ----------------------------------------------------------------------------------


def test_the_commit_waits_for_the_whole_batch() -> None:
    """Nothing of a batch is done before its handler has returned."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1 b2 a3")
    seen: list[int | None] = []
    bench.meanwhile = lambda: (bench.inboxes.router.note_all(), seen.append(epoch.watermark()))
    bench.run()
    bench.inboxes.router.note_all()
    assert (seen, epoch.watermark()) == ([0], 4)


def test_what_raised_does_not_start_again_above_a_drains_limit() -> None:
    """A stop without drain lets what runs end; the halves are left for the next owner."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    bench.handle = raising("b1")
    bench.meanwhile = lambda: bench.drain(epoch, below_started=False)
    bench.run()
    assert bench.run() is None
    assert bench.inboxes.is_drained([epoch])
    assert (epoch.watermark(), bench.inboxes.end([epoch])) == (0, [3])


def test_what_raised_starts_again_below_a_drains_limit() -> None:
    """All of it had started: to leave it would repeat what lies in between."""
    bench = BatchBench(wait_s=100.0)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2 d3 e4 f5 g6 h7")
    bench.handle = raising("b1")
    bench.meanwhile = lambda: bench.drain(epoch)
    bench.run()
    bench.handle = raising()
    assert bench.run_all() == [["a0", "b1", "c2", "d3"], ["e4", "f5", "g6", "h7"]]
    assert (epoch.watermark(), bench.inboxes.end([epoch])) == (8, [0])


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_what_a_batch_did_for_an_ended_epoch_counts_for_nothing(scope: str) -> None:
    """The records of other partitions continue."""
    bench = BatchBench(scope)
    lost, kept = bench.assign(0), bench.assign(1)
    bench.receive(lost, "a0 a1 b2")
    bench.receive(kept, "c0 c1")
    bench.handle = lambda _batch: {2: Skipped("no"), 3: Failed(ERROR)}
    bench.decide = lambda _record: RetryHead(0.0, "again")
    bench.meanwhile = lambda: bench.inboxes.end([lost])
    bench.run()
    assert (lost.tally.finished_records, lost.tally.skipped_records, lost.tally.returned_records) == (0, 0, 3)
    bench.meanwhile, bench.handle = lambda: None, failing()
    bench.check(0.1)
    assert bench.run_all() == [["c0", "c1"]]
    bench.inboxes.router.note_all()
    assert kept.watermark() == 2
    assert bench.is_empty()


def test_a_batch_of_an_ended_epoch_keeps_its_keys() -> None:
    """The partition comes back: the keys of the batch that still runs wait for it, others do not."""
    bench = BatchBench(consumers=2, records_max=2)
    bench.slow()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    busy = next(inbox.number for inbox in bench.inboxes.inboxes if inbox.q)
    inbox = bench.inboxes.inboxes[busy]
    bench.inboxes.take(inbox, 2)
    bench.inboxes.end([epoch])
    again = bench.assign()
    bench.receive(again, "a0 b1 c2")
    for now_s in (0.0, 0.006):
        bench.check(now_s)
    assert bench.run(1 - busy) == ["c2"]
    assert bench.run(1 - busy) is None
    bench.workers._end(inbox, None)
    assert bench.run_all() == [["a0", "b1"]]
