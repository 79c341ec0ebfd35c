"""Guards of an epoch's position: what the commit position passes, its gaps and its marks."""

from __future__ import annotations

from ehkafka.lanes.epoch import Epoch, Received
from tests.kit.inbox_bench import InboxBench
from tests.kit.mutant import Mutant
from tests.simulation.seeds import a_saving_seed_is_red, a_seed_is_red


def _a_gap_holds_the_commit() -> bool:
    epoch = InboxBench().assign()
    epoch.received.skip_to(10, 0.0)
    return epoch.watermark() != 10


def _a_gaps_end_has_the_next_records_epoch() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    epoch.received.skip_to(10, 0.0)
    bench.receive(epoch, "a10", leader_epoch=6)
    mark = epoch.received.marks.at(9)
    return mark is not None and mark.leader_epoch == 6


def _offsets_come_again_in_one_epoch() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a3")
    try:
        epoch.received.skip_to(0, 0.0)
    except AssertionError:
        return False
    return True


MUTANTS = [
    Mutant(
        "the commit position passes what is unfinished",
        Epoch.watermark,
        "self.received.next_offset if oldest is None else oldest[MESSAGE].offset()",
        "self.received.next_offset",
        a_seed_is_red,
    ),
    Mutant(
        "what waits is saved as finished",
        Epoch.extent,
        "for entry in self.unfinished()",
        "for entry in list(self.unfinished())[:1]",
        a_saving_seed_is_red,
    ),
    Mutant(
        "leader epochs within a batch are lost",
        Received.note,
        "message.leader_epoch() != following.leader_epoch()",
        "False",
        a_seed_is_red,
    ),
    Mutant(
        "a gap does not move the position",
        Received.skip_to,
        "self.next_offset = next_offset",
        "pass",
        _a_gap_holds_the_commit,
    ),
    Mutant(
        "the end of a gap gets the next record's leader epoch",
        Received.skip_to,
        "self.marks.add(Mark(next_offset - 1, now_s, leader_epoch))",
        "pass",
        _a_gaps_end_has_the_next_records_epoch,
    ),
    Mutant(
        "a position jumps back within an epoch",
        Received.skip_to,
        "assert self.next_offset is None or next_offset >= self.next_offset",
        "pass",
        _offsets_come_again_in_one_epoch,
    ),
]
