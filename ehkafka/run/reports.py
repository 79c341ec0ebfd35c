"""What a run says of itself unasked and asked: once a minute each handler, on SIGUSR1 everything.

`HandlerReports` is the poll thread's, at its slow check. `report_state` is called by whoever was asked; both
read what the snapshot reads, and leave the writing to the telemetry thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import HandlerReport, StateReport
from ehkafka.run.observation import snapshot_of
from ehkafka.telemetry.picture import partition_snapshots
from ehkafka.wording import counted, seconds
from ehkafka.wording.live_stack import stacks_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.events import Event
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.run.runtime import Runtime
    from ehkafka.telemetry.snapshot import PartitionSnapshot, Snapshot


class HandlerReports:
    """Reports each handler every `interval_s` seconds; with 0 never."""

    def __init__(
        self,
        context: IntakeContext,
        routes: Sequence[Route],
        interval_s: float,
        emit: Callable[[Event], None],
    ) -> None:
        self._context = context
        self._routes = routes
        self._interval_s = interval_s
        self._emit = emit
        self._reported_s = context.clock()
        # By handler, up to the last report.
        self._outcomes: dict[str, int] = {}

    def check(self) -> None:
        """Report what is due."""
        now_s = self._context.clock()
        took_s = now_s - self._reported_s
        if not self._interval_s or took_s < self._interval_s:
            return
        self._reported_s = now_s
        pictures = partition_snapshots(self._context)
        for route in self._routes:
            outcomes = route.hub.tally.outcomes
            done, self._outcomes[route.name] = outcomes - self._outcomes.get(route.name, 0), outcomes
            ours = [one for one in pictures if one.partition.topic in route.topics]
            lags = [one.lag_records for one in ours]
            ages = [one.oldest.age_s for one in ours if one.oldest is not None]
            self._emit(
                HandlerReport(
                    handler=route.handler,
                    topics=route.topics,
                    partitions=len(ours),
                    records_per_s=done / took_s,
                    lag_records=None if None in lags else sum(lag for lag in lags if lag is not None),
                    oldest_s=max(ages, default=None),
                    waiting_keys=_waiting_keys(route),
                )
            )


def _waiting_keys(route: Route) -> int:
    with route.hub.locked(noted=False) as inboxes:
        return sum(1 for held in inboxes.waiting.held if held.is_parked)


def report_state(runtime: Runtime, why: str) -> None:
    """Report the snapshot, and where every busy worker is."""
    snapshot = snapshot_of(runtime)
    stacks = runtime.routes.stacks()
    runtime.bus.emit(
        StateReport(
            why=why,
            state=snapshot.state,
            partitions=len(snapshot.partitions),
            lag_records=snapshot.lag_records,
            backlog_records=snapshot.backlog_records,
            parked_records=snapshot.parked_records,
            busy_workers=len(stacks),
            lines="\n".join(_lines(snapshot)),
            stacks=stacks_text(stacks),
        )
    )


def _lines(snapshot: Snapshot) -> Iterator[str]:
    yield (
        f"up {seconds(snapshot.uptime_s)}; {counted(snapshot.received_records, 'record')} received, "
        f"{snapshot.finished_records} finished, {snapshot.skipped_records} skipped, "
        f"{snapshot.dead_lettered_records} dead-lettered, {snapshot.returned_records} returned, "
        f"{snapshot.stale_records} stale"
    )
    for one in snapshot.partitions:
        yield _line(one)


def _line(one: PartitionSnapshot) -> str:
    lag = "unknown" if one.lag_records is None else one.lag_records
    text = (
        f"{one.partition}: lag {lag}, backlog {one.backlog_records}, parked {one.parked_records}, "
        f"lanes {one.lanes}, watermark {one.watermark}, committed {one.committed}"
    )
    if one.paused:
        text += ", paused"
    if (oldest := one.oldest) is not None:
        text += f"; oldest @{oldest.offset} key {oldest.key}, {seconds(oldest.age_s)}: {oldest.state}"
    return text
