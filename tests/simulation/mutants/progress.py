"""Guards of what is committed and saved: the ledger, the ranges of finished records, the epochs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.intake.epochs import Epochs
from ehkafka.lanes.finished import Extent, FinishedBefore
from ehkafka.progress.known import Known
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.saving import Detail, ProgressSaver
from ehkafka.records import TopicPartition
from tests.kit.inbox_bench import InboxBench
from tests.kit.mutant import Mutant
from tests.simulation.seeds import a_saving_seed_is_red, a_seed_is_red

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch

P0 = TopicPartition("t", 0)


def _saved_without_a_check(bench: InboxBench, epoch: Epoch, saver: ProgressSaver) -> Any:
    bench.finish(bench.call("a"))
    sample = saver.sample(epoch, Detail.KEPT)
    assert sample is not None
    return saver.position(sample).finished


def _what_was_restored_is_not_saved() -> bool:
    bench = InboxBench()
    epoch = bench.assign(finished_before=[2])
    bench.receive(epoch, "a0 b1")
    saver = ProgressSaver(1_000)
    saver.begin(epoch, None)
    return bool(_saved_without_a_check(bench, epoch, saver) != ((2, 3),))


def _what_is_gone_is_saved() -> bool:
    bench = InboxBench()
    epoch = bench.assign(finished_before=[1])
    assert epoch.received.finished_before is not None
    epoch.received.finished_before.leader_epoch = 1
    saver = ProgressSaver(1_000)
    saver.begin(epoch, None)
    bench.receive(epoch, "a0 b1", leader_epoch=2)
    sample = saver.sample(epoch, Detail.KEPT)
    return sample is None or saver.position(sample).finished != ()


def _what_lies_below_the_position_is_saved() -> bool:
    bench = InboxBench()
    epoch = bench.assign(finished_before=[1, 3])
    bench.receive(epoch, "a0 b1 c2")
    saver = ProgressSaver(1_000)
    saver.begin(epoch, Position(1, 0, None, "text", ((1, 2), (3, 4))))
    saver._known[epoch.partition, epoch.number] = Known(((1, 2), (3, 4)))
    return bool(_saved_without_a_check(bench, epoch, saver) != ((3, 4),))


def _restored_ranges_are_forgotten() -> bool:
    bench = InboxBench()
    epoch = bench.assign(finished_before={1, 5})
    bench.receive(epoch, "a0 b1")
    extent = epoch.extent()
    return extent is None or extent.finished() != ((1, 2), (5, 6))


def _another_log_is_skipped() -> bool:
    bench = InboxBench()
    epoch = bench.assign(finished_before=FinishedBefore([(1, 9)], leader_epoch=3))
    bench.receive(epoch, "a0 b1", leader_epoch=4)
    return len(epoch.order) != 2


def _refused_metadata_is_sent_again() -> bool:
    ledger = CommitLedger(CommitPacing())
    ledger.assigned(P0, 1, None)
    long = {P0: Position(1, 5, None, "long")}
    ledger.refuse_metadata(ledger.plan(long, 0.0, 0))
    return ledger.dirty(long) != {P0: Position(1, 5)}


def _ledger(next_offset: int | None = None) -> CommitLedger:
    ledger = CommitLedger(CommitPacing())
    ledger.assigned(P0, 2, None if next_offset is None else Position(2, next_offset))
    return ledger


def _an_old_epochs_answer_counts() -> bool:
    ledger = _ledger(5)
    ledger.confirm({P0: Position(1, 10)}, 1.0)
    return ledger.acknowledged(P0) != Position(2, 5)


def _an_old_epochs_position_is_sent() -> bool:
    return bool(_ledger().dirty({P0: Position(1, 10)}))


def _a_late_answer_lowers() -> bool:
    ledger = _ledger(10)
    ledger.confirm({P0: Position(2, 7)}, 1.0)
    return ledger.acknowledged(P0) != Position(2, 10)


def _an_unchanged_position_is_sent() -> bool:
    return bool(_ledger(10).dirty({P0: Position(2, 10)}))


def _two_commits_are_in_flight() -> bool:
    ledger = _ledger()
    ledger.plan({P0: Position(2, 10)}, 0.0, 0)
    return ledger.due(100.0, 0)


def _does_not_back_off() -> bool:
    ledger = _ledger()
    ledger.plan({P0: Position(2, 10)}, 0.0, 0)
    ledger.landed()
    ledger.failed(1.0)
    return ledger.due(1.5, 0)


def _an_epoch_is_used_again() -> bool:
    epochs = Epochs()
    first = epochs.begin(P0)
    epochs.end(P0)
    return epochs.begin(P0) == first


MUTANTS = [
    Mutant(
        "what was restored is forgotten before it is received",
        Extent.finished,
        "if self.before is not None:",
        "if False:",
        _restored_ranges_are_forgotten,
    ),
    Mutant(
        "a record that replaced a finished one is skipped",
        FinishedBefore._has,
        " and not self._is_newer(message)",
        "",
        _another_log_is_skipped,
    ),
    Mutant(
        "metadata that was refused is offered again",
        CommitLedger._dirty,
        "_offered(entry, position)",
        "position",
        _refused_metadata_is_sent_again,
    ),
    Mutant(
        "a failed commit is not dirty any more",
        CommitLedger.plan,
        "self.in_flight = dirty",
        "self.in_flight = dirty; self.confirm(dirty, now_s)",
        partial(a_seed_is_red, 63),
    ),
    Mutant(
        "the ledger takes answers of other epochs",
        CommitLedger.confirm,
        "entry is None or entry.epoch != position.epoch",
        "entry is None",
        _an_old_epochs_answer_counts,
    ),
    Mutant(
        "the ledger sends positions of other epochs",
        CommitLedger._dirty,
        "entry is None or entry.epoch != position.epoch",
        "entry is None",
        _an_old_epochs_position_is_sent,
    ),
    Mutant(
        "a late answer lowers what is known",
        CommitLedger.confirm,
        "known is None or position.next_offset >= known.next_offset",
        "True",
        _a_late_answer_lowers,
    ),
    Mutant(
        "an unchanged position is dirty",
        CommitLedger._is_dirty,
        "position.next_offset > known.next_offset",
        "True",
        _an_unchanged_position_is_sent,
    ),
    Mutant(
        "a second commit is sent while one is in flight",
        CommitLedger.due,
        "self.in_flight is not None or ",
        "",
        _two_commits_are_in_flight,
    ),
    Mutant(
        "a failed commit is tried again at once",
        CommitLedger.due,
        " or now_s < self._not_before_s",
        "",
        _does_not_back_off,
    ),
    Mutant(
        "a commit between two looks says nothing of what is finished",
        ProgressSaver._found,
        "known = self._known.get(place, Known()).above(sample.next_offset)",
        "known = Known()",
        a_saving_seed_is_red,
    ),
    Mutant(
        "what was restored is not said before the first look",
        ProgressSaver.begin,
        "self._known[place] =",
        "_ =",
        _what_was_restored_is_not_saved,
    ),
    Mutant(
        "what was restored and is gone from the log is said to be finished",
        ProgressSaver._found,
        "self._known.pop(place, None)",
        "pass",
        _what_is_gone_is_saved,
    ),
    Mutant(
        "a commit between two looks is not cut at its position",
        Known.above,
        "self.finished[below:]",
        "self.finished",
        _what_lies_below_the_position_is_saved,
    ),
    Mutant(
        "an epoch's number is used again",
        Epochs.begin,
        "self._last.get(partition, 0) + 1",
        "1",
        _an_epoch_is_used_again,
    ),
]
