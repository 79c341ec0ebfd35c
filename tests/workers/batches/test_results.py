"""What becomes of a batch's records when its handler returns, names failures, or raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.decision import RetryHead
from ehkafka.records.batch import Failed, Skipped
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


def test_nothing_is_known_of_narrowed_records_that_are_gone() -> None:
    """Memory follows what is there, not what ever raised."""
    bench = BatchBench(records_max=3)
    bench.handle = raising("a0")
    for _ in range(5):
        epoch = bench.assign()
        bench.receive(epoch, "a0 b1 c2")
        bench.run()
        assert len(bench.inboxes.router.attempts) == 3
        bench.inboxes.ending.end([epoch])
        assert not bench.inboxes.router.attempts


# --- drains and ends ----------------------------------------------------------------------------------


def test_what_raised_does_not_start_again_above_a_drains_limit() -> None:
    """A stop without drain lets what runs end; the halves are left for the next owner."""
    bench = BatchBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    bench.handle = raising("b1")
    bench.meanwhile = lambda: bench.drain(epoch, below_started=False)
    bench.run()
    assert bench.run() is None
    assert bench.inboxes.ending.is_drained([epoch])
    assert (epoch.watermark(), bench.inboxes.ending.end([epoch])) == (0, [3])


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
    assert (epoch.watermark(), bench.inboxes.ending.end([epoch])) == (8, [0])


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_what_a_batch_did_for_an_ended_epoch_counts_for_nothing(scope: str) -> None:
    """The records of other partitions continue."""
    bench = BatchBench(scope)
    lost, kept = bench.assign(0), bench.assign(1)
    bench.receive(lost, "a0 a1 b2")
    bench.receive(kept, "c0 c1")
    bench.handle = lambda _batch: {2: Skipped("no"), 3: Failed(ERROR)}
    bench.decide = lambda _record: RetryHead(0.0, "again")
    bench.meanwhile = lambda: bench.inboxes.ending.end([lost])
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
    bench.inboxes.ending.end([epoch])
    again = bench.assign()
    bench.receive(again, "a0 b1 c2")
    for now_s in (0.0, 0.006):
        bench.check(now_s)
    assert bench.run(1 - busy) == ["c2"]
    assert bench.run(1 - busy) is None
    bench.workers._end(inbox, None)
    assert bench.run_all() == [["a0", "b1"]]
