"""Guards of flow control: who is paused for its backlog or its parked records, and who resumes."""

from __future__ import annotations

from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.lanes.assignment import Assignment
from tests.simulation.mutants.mutant import P0, Mutant


def _resumes_above_half() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    load = Assignment(P0, 1)
    load.backlog_records = 1_000
    flow.to_pause([load], 1)
    load.backlog_records = 999
    return bool(flow.to_resume([load], 0, 0))


def _pauses_who_is_below_its_share() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10))
    load = Assignment(P0, 1)
    load.backlog_records = 1
    return bool(flow.to_pause([load], 1))


def _a_full_parked_share_goes_on() -> bool:
    flow = FlowControl(FlowLimits(1_000, consume_records_max=10, parked_records_max=100))
    assignment = Assignment(P0, 1)
    assignment.parked_records = 100
    return flow.to_pause_parked([assignment], 1) != [P0]


def _stays_paused_after_revoke() -> bool:
    flow = FlowControl(FlowLimits())
    flow.to_pause_all([Assignment(P0, 1)])
    flow.forget(P0)
    return bool(flow.paused)


MUTANTS = [
    Mutant(
        "what is parked beyond its budget is taken anew",
        FlowControl._room,
        "- beyond_records",
        "",
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
        FlowControl._room,
        "limits.backlog_records_max - backlog_records",
        "limits.backlog_records_max",
    ),
    Mutant(
        "a partition is paused below its share",
        FlowControl.to_pause,
        "load.backlog_records >= records",
        "True",
        _pauses_who_is_below_its_share,
    ),
    Mutant(
        "a paused partition resumes at once",
        FlowControl.to_resume,
        "load.backlog_records <= records // 2",
        "load.backlog_records <= records",
        _resumes_above_half,
    ),
    Mutant(
        "a revoked partition stays paused",
        FlowControl.forget,
        "self.paused.discard(partition)",
        "pass",
        _stays_paused_after_revoke,
    ),
]
