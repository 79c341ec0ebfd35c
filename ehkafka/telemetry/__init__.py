"""What an app shows of itself: events, counters, the snapshot, health. Observes; decides nothing.

`bus` takes events from every thread and reports them on `ehkafka-telemetry`; `log_lines` writes what each
event says of itself, one for a whole assignment, `thinning` leaves out repetitions, `json_lines` is JSON for
what any logger says. `picture` takes the `snapshot`, with `waiting_outputs` for records that wait for
outputs, and `joins` makes one of several members' ones; `health` reads health from it, `snapshot_json` brings
one back that another process took. `catalogue` has every metric once, `measured` what its numbers are read
from; `prometheus/` shows them by `ehkafka.metrics`, `otel/` by `ehkafka.otel`, whose traces it makes as well.

A program reads the names below; `App.snapshot()` and `App.health()` return them.
"""

from __future__ import annotations

from ehkafka.telemetry.snapshot import (
    HandlerSnapshot,
    Health,
    MemberSnapshot,
    PartitionSnapshot,
    Snapshot,
    Unfinished,
)

__all__ = ["HandlerSnapshot", "Health", "MemberSnapshot", "PartitionSnapshot", "Snapshot", "Unfinished"]
