"""A commit never passes a record whose outputs wait, and never says that such a record is finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.progress.metadata import CommitMetadata, decode
from ehkafka.progress.saving import Detail, ProgressSaver
from tests.kit.inbox_bench import InboxBench, at_once

if TYPE_CHECKING:
    import random

RECORDS = 12


def in_commit(saver: ProgressSaver, epoch: Any, detail: Detail) -> tuple[int, set[int]]:
    """Return what a commit says: its offset, and the offsets above that are finished."""
    saver.begin_tick(1)
    sample = saver.sample(epoch, detail)
    assert sample is not None
    position = saver.position(sample)
    saver.end_tick(detail)
    decoded = decode(position.metadata or "", position.next_offset)
    ranges = decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()
    return position.next_offset, {offset for start, end in ranges for offset in range(start, end)}


@given(st.randoms(use_true_random=False), st.booleans())
def test_a_commit_says_nothing_of_what_waits_and_takes_nothing_back(
    chance: random.Random, everything: bool
) -> None:
    """Records end in any order and their outputs are acknowledged in any: looked at after each step."""
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.next_offset = 0
    bench.receive(epoch, " ".join(f"{chr(97 + number)}{number}" for number in range(RECORDS)))
    waiting: set[int] = set()
    saver = ProgressSaver(4000, clock=lambda: 0.0)
    saver.lowest = lambda: {epoch: min(waiting)} if waiting else {}
    saver.begin(epoch, None)
    workers = at_once(bench, RECORDS)
    ended: set[int] = set()
    before: set[int] = set()
    while workers or waiting:
        if workers and (not waiting or chance.random() < 0.6):
            worker = workers.pop(chance.randrange(len(workers)))
            offset = worker.offset
            if chance.random() < 0.7:
                waiting.add(offset)
            bench.finish(worker)
            ended.add(offset)
        else:
            waiting.remove(chance.choice(sorted(waiting)))
        detail = Detail.ALL if everything or chance.random() < 0.5 else Detail.KEPT
        next_offset, above = in_commit(saver, epoch, detail)
        done = set(range(next_offset)) | above
        assert not done & waiting
        assert done <= ended
        assert before <= done, "what was said to be finished was taken back"
        before = done
    assert in_commit(saver, epoch, Detail.ALL) == (RECORDS, set())


def test_what_is_finished_above_a_waiting_record_is_not_saved_yet() -> None:
    """It may be of the same key, whose outputs would come again for the earlier record alone."""
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.next_offset = 0
    bench.receive(epoch, "a0 b1 c2 b3")
    waiting = {2}
    saver = ProgressSaver(4000, clock=lambda: 0.0)
    saver.lowest = lambda: {epoch: min(waiting)} if waiting else {}
    saver.begin(epoch, None)
    bench.call("a")
    for key in "cb":
        bench.finish(bench.call(key), 2)
    for _ in range(2):
        assert in_commit(saver, epoch, Detail.ALL) == (0, {1})
        assert in_commit(saver, epoch, Detail.KEPT) == (0, {1})
    waiting.clear()
    assert in_commit(saver, epoch, Detail.ALL) == (0, {1, 2, 3})


def commit_while_a_record_ends(kind: type[ProgressSaver]) -> int:
    """Let a record end between the look at positions and that at the book; return what is committed."""
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.next_offset = 0
    bench.receive(epoch, "a0")
    worker = bench.call()
    waiting: set[int] = set()

    def lowest() -> dict[Any, int]:
        found = {epoch: min(waiting)} if waiting else {}
        if not waiting:
            # A worker, meanwhile: its output is put before its record ends.
            waiting.add(0)
            bench.finish(worker)
        return found

    saver = kind(4000, clock=lambda: 0.0)
    saver.lowest = lowest
    saver.begin(epoch, None)
    return in_commit(saver, epoch, Detail.ALL)[0]


def test_a_record_that_ends_during_the_look_is_not_committed() -> None:
    """Positions are taken first, and what waits second."""
    assert commit_while_a_record_ends(ProgressSaver) == 0


def test_mutant_what_waits_is_taken_first() -> None:
    """The record ends in between, with an output that nobody has acknowledged."""

    class OutputsFirst(ProgressSaver):
        def inspect(self, epoch: Any, detail: Detail) -> Any:
            lowest = self.lowest()
            self.lowest = lambda: lowest
            return super().inspect(epoch, detail)

    assert commit_while_a_record_ends(OutputsFirst) == 1


def test_a_record_is_not_saved_where_an_earlier_one_of_its_key_is_not() -> None:
    """The earlier one was left out while it waited, and only a look finds it."""
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.next_offset = 0
    bench.receive(epoch, "z0 a1 a2")
    waiting: set[int] = {1}
    saver = ProgressSaver(4000, clock=lambda: 0.0)
    saver.lowest = lambda: {epoch: min(waiting)} if waiting else {}
    saver.begin(epoch, None)
    _, worker = at_once(bench, 2)
    bench.finish(worker, records=1)
    in_commit(saver, epoch, Detail.KEPT)
    waiting.clear()
    worker = bench.call()
    bench.finish(worker)
    assert in_commit(saver, epoch, Detail.KEPT) == (0, set())
    assert in_commit(saver, epoch, Detail.ALL) == (0, {1, 2})
