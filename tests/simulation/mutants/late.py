"""Guards of late lanes: what keeps records in chunks in order with the lanes of those that were taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.chunk import Chunk
from ehkafka.lanes.express import Express
from ehkafka.lanes.late import LateLanes
from tests.kit.lane_bench import LaneBench
from tests.simulation.mutants.mutant import Mutant, a_late_seed_is_red

if TYPE_CHECKING:
    from ehkafka.records import Message


def _a_record_without_a_key_is_taken() -> bool:
    def order_by(message: Message) -> object:
        return {b"a": 1}[message.key()]

    bench = LaneBench(late_lanes=True, order_by=order_by)
    assert isinstance(bench.dispatcher.express, LateLanes)
    bench.receive(bench.assign(), "a0 b1")
    return bool(bench.dispatcher.express.take(2))


def _records_of_a_hot_key_keep_the_lock() -> bool:
    bench = LaneBench(late_lanes=True)
    late = bench.dispatcher.express
    assert isinstance(late, LateLanes)
    assignment = bench.assign()
    bench.receive(assignment, " ".join(f"a{number}" for number in range(3_000)))
    late.take(2)
    return len(assignment.lanes[b"a"]) == 3_000


MUTANTS = [
    Mutant(
        "a taken record's key is forgotten",
        LateLanes._give_lanes,
        "lanes[key] = lane = Lane(",
        "lane = Lane(",
        a_late_seed_is_red,
    ),
    Mutant(
        "a taken record overtakes the lane of its key",
        LateLanes._give_lanes,
        "lane = lanes.get(key)",
        "lane = None",
        a_late_seed_is_red,
    ),
    Mutant(
        "a drain does not see that a lane was taken",
        LateLanes._give_lanes,
        "lane.running = True",
        "pass",
        a_late_seed_is_red,
    ),
    Mutant(
        "a record that goes behind a held lane stays in the backlog",
        LateLanes._give_lanes,
        "holds.park(assignment, 1, size)",
        "pass",
        a_late_seed_is_red,
    ),
    Mutant(
        "a chunk keeps the keys of what was taken",
        Chunk.take_first,
        "del keys[:records]",
        "pass",
        a_late_seed_is_red,
    ),
    Mutant(
        "a record is taken whose key waits",
        LateLanes.take,
        "self.needs_lanes(assignment)",
        "False",
        a_late_seed_is_red,
    ),
    Mutant(
        "a record is taken whose order_by failed",
        LateLanes.take,
        "first.needs_lanes or ",
        "",
        _a_record_without_a_key_is_taken,
    ),
    Mutant(
        "a chunk that was taken whole stays",
        Express._take_first,
        "return assignment.chunks.popleft()",
        "return chunk",
        a_late_seed_is_red,
    ),
    Mutant(
        "what is left of a chunk loses its turn",
        LateLanes.take,
        "self._turns.append(assignment)",
        "pass",
        a_late_seed_is_red,
    ),
    Mutant(
        "records of a hot key keep the lock",
        LateLanes.take,
        "left -= records",
        "pass",
        _records_of_a_hot_key_keep_the_lock,
    ),
    Mutant(
        "a chunk keeps what was taken",
        Chunk.take_first,
        "del messages[:records]",
        "pass",
        a_late_seed_is_red,
    ),
]
