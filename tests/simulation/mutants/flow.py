"""Guards of flow control: who is paused for its backlog or its parked records, and who resumes."""

from __future__ import annotations

from functools import partial

from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.flow import Amounts, FlowControl, FlowLimits, Load, Stuck
from ehkafka.intake.pace import Counts, PartitionPaces
from ehkafka.records import TopicPartition
from tests.kit.mutant import Mutant
from tests.simulation.seeds import a_seed_is_red

P0 = TopicPartition("t", 0)


def _loads(*records: int) -> list[Load]:
    return [Load(TopicPartition("t", number), count, 0, 0, 0) for number, count in enumerate(records)]


def _set(loads: list[Load], place: int, records: int) -> None:
    loads[place] = loads[place]._replace(backlog_records=records)


def _flow_with_a_pause() -> tuple[FlowControl, list[Load]]:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    loads = _loads(500, 0)
    flow.to_pause([Stuck(load, load.backlog_records) for load in loads], Amounts(500, 0), 0.0)
    return flow, loads


def _resumes_above_a_quarter() -> bool:
    flow, loads = _flow_with_a_pause()
    _set(loads, 0, 400)
    return bool(flow.to_resume(loads, Amounts(400, 0), 0.0))


def _tries_a_stuck_one_at_once() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    loads = _loads(30, 0)
    flow.to_pause([Stuck(load, load.backlog_records) for load in loads], Amounts(960, 0), 0.0)
    return bool(flow.to_resume(loads, Amounts(30, 0), 0.1))


def _pauses_who_moves() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    stuck = [Stuck(load, 0) for load in _loads(500, 0)]
    return bool(flow.to_pause(stuck, Amounts(500, 0), 0.0))


def _pauses_where_nobody_gains() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    stuck = [Stuck(load, load.backlog_records) for load in _loads(400, 400)]
    return flow.to_pause(stuck, Amounts(800, 0), 0.0) is not None


def _judges_at_once() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    stuck = [Stuck(load, None) for load in _loads(500, 0)]
    return flow.to_pause(stuck, Amounts(500, 0), 0.0) is not None


def _pauses_for_an_ended_log() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    stuck = [Stuck(load, load.backlog_records) for load in _loads(500, 10)]
    return flow.to_pause(stuck, Amounts(510, 0), 0.0, lambda partition: partition == P0) is not None


def _pauses_for_who_has_enough() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    first, second = _loads(500, 60)
    stuck = [Stuck(first, 500), Stuck(second, 40)]
    return flow.to_pause(stuck, Amounts(560, 0), 0.0) is not None


def _suspicious_flow(partitions: int) -> tuple[FlowControl, list[Load]]:
    """All but the last two have turned out to be stuck, one after another."""
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    loads = _loads(*[0] * partitions)
    for place in range(partitions - 2):
        _set(loads, place, 100)
        for records in (None, 100):
            of = loads[place].partition
            stuck = [Stuck(one, records if one.partition == of else one.backlog_records) for one in loads]
            flow.to_pause(stuck, Amounts(500, 0), 0.0)
    return flow, loads


def _waits_for_the_fourth_of_many() -> bool:
    flow, loads = _suspicious_flow(5)
    _set(loads, 3, 200)
    stuck = [Stuck(one, None if one is loads[3] else one.backlog_records) for one in loads]
    return flow.to_pause(stuck, Amounts(500, 0), 0.0) is None


def _suspects_after_wrong_suspicions() -> bool:
    flow, loads = _suspicious_flow(5)
    for _ in range(3):
        _set(loads, 3, 200)
        stuck = [Stuck(one, None if one is loads[3] else one.backlog_records) for one in loads]
        flow.to_pause(stuck, Amounts(500, 0), 0.0)
        _set(loads, 3, 0)
        flow.to_resume(loads, Amounts(300, 0), 0.1)
    _set(loads, 3, 200)
    stuck = [Stuck(one, None if one is loads[3] else one.backlog_records) for one in loads]
    return flow.to_pause(stuck, Amounts(500, 0), 0.0) is not None


def _takes_all_that_is_free() -> bool:
    flow = FlowControl(FlowLimits(1_000, 10**12, consume_records_max=1_000))
    return flow.batch_size(Amounts(0, 0)) > 250


def _a_slow_partition_counts_as_stuck_for_ever() -> bool:
    paces = PartitionPaces()
    paces.stuck_records(Counts(P0, 100, 0), 0.0, 0.0)
    return paces.stuck_records(Counts(P0, 50, 50), 0.0, 0.1) != 0


def _a_new_partition_counts_as_stuck() -> bool:
    return PartitionPaces().stuck_records(Counts(P0, 100, 0), 0.0, 0.0) is not None


def _a_full_parked_share_goes_on() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10, parked_records_max=100))
    return flow.to_pause_parked([Load(P0, 0, 0, 100, 0)], 1) != [P0]


def _stays_paused_after_revoke() -> bool:
    flow = FlowControl(FlowLimits())
    flow.to_pause_all(_loads(0))
    flow.forget(P0)
    return bool(flow.paused)


def _who_never_moved_goes_on_with_the_others() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    loads = _loads(620, 380)
    flow.to_pause_all(loads)
    _set(loads, 1, 0)
    return loads[0].partition in flow.to_resume(loads, Amounts(620, 0), 1.0)


MUTANTS = [
    Mutant(
        "what is parked beyond its budget is taken anew",
        FlowControl._free,
        "- beyond_records",
        "",
        partial(a_seed_is_red, 11),
    ),
    Mutant(
        "a full parked budget pauses nobody",
        FlowControl.over_parked_share,
        "load.parked_records >= records",
        "False",
        _a_full_parked_share_goes_on,
    ),
    Mutant(
        "the backlog has no limit",
        FlowControl._free,
        "limits.backlog_records_max - amounts.backlog_records - beyond_records",
        "limits.backlog_records_max",
        a_seed_is_red,
    ),
    Mutant(
        "a partition is paused though its records end",
        FlowControl.to_pause,
        "if _is_over(one, records // parts, size // parts)",
        "if one.load.backlog_records > records // parts",
        _pauses_who_moves,
    ),
    Mutant(
        "partitions are paused where nobody gains",
        FlowControl.to_pause,
        "(over and not gains) or ",
        "",
        _pauses_where_nobody_gains,
    ),
    Mutant(
        "partitions are paused for one whose log has ended",
        FlowControl.to_pause,
        "has_unread(one.load.partition) and not _has_enough(one)",
        "not _has_enough(one)",
        _pauses_for_an_ended_log,
    ),
    Mutant(
        "partitions are paused for one that has enough",
        FlowControl.to_pause,
        "has_unread(one.load.partition) and not _has_enough(one)",
        "has_unread(one.load.partition)",
        _pauses_for_who_has_enough,
    ),
    Mutant(
        "each of many stuck partitions is waited for",
        FlowControl.to_pause,
        " and not self._suspicion.is_justified",
        "",
        _waits_for_the_fourth_of_many,
    ),
    Mutant(
        "suspicions that were wrong are not noticed",
        FlowControl._may_go_on,
        "self._suspicion.was_wrong()",
        "pass",
        _suspects_after_wrong_suspicions,
    ),
    Mutant(
        "who is stuck is said too early",
        FlowControl.to_pause,
        " or (unknown and not self._suspicion.is_justified)",
        "",
        _judges_at_once,
    ),
    Mutant(
        "a paused partition resumes at once",
        FlowControl._may_go_on,
        "if _holds_a_part(load, pause, parts):",
        "if load.backlog_records < pause.records:",
        _resumes_above_a_quarter,
    ),
    Mutant(
        "a stuck partition is tried again at once",
        FlowControl._may_go_on,
        " and now_s >= pause.again_s",
        "",
        _tries_a_stuck_one_at_once,
    ),
    Mutant(
        "who never moved goes on beside the others",
        FlowControl.to_resume,
        "self._keep_as_stuck(still, now_s)",
        "pass",
        _who_never_moved_goes_on_with_the_others,
    ),
    Mutant(
        "a batch fills the backlog",
        FlowControl.batch_size,
        "min(self.room(amounts), max(1, part))",
        "self.room(amounts)",
        _takes_all_that_is_free,
    ),
    Mutant(
        "what ends within a second is stuck",
        PartitionPaces.stuck_records,
        " - int(ended / (now_s - since.at_s) * AHEAD_S)",
        "",
        _a_slow_partition_counts_as_stuck_for_ever,
    ),
    Mutant(
        "new records are stuck",
        PartitionPaces.stuck_records,
        "return None",
        "return counts.backlog_records",
        _a_new_partition_counts_as_stuck,
    ),
    Mutant(
        "a call to keep in touch finds no room",
        Backpressure.make_room,
        "self._context.flow.room(self.amounts()) == 0",
        "False",
        partial(a_seed_is_red, 11),
    ),
    Mutant(
        "a revoked partition stays paused",
        FlowControl.forget,
        "self.paused.discard(partition)",
        "pass",
        _stays_paused_after_revoke,
    ),
]
