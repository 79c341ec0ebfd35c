"""What an app shows of itself: events, counters, the snapshot, health. Observes; decides nothing.

`bus` takes events from every thread and tells them on `ehkafka-telemetry`; `log_lines` writes the
`sentences/` of theirs in the words of `wording`, `thinning` leaves out repetitions, `rebalance_lines` makes
one line of a whole assignment. `picture` takes the `snapshot`, `health` reads health from it.

A program reads the names below; `App.snapshot()` and `App.health()` return them.
"""

from __future__ import annotations

from ehkafka.telemetry.snapshot import Health, PartitionSnapshot, Snapshot, Unfinished

__all__ = ["Health", "PartitionSnapshot", "Snapshot", "Unfinished"]
