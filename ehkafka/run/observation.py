"""An app's view of its run: the snapshot, the judgement on it, and reports. From any thread.

A run is not live where only a restart of the process helps: a broker that is away, or a key on hold, is no
reason. It is ready once it has joined its group, while it can do its work. No record counts there: a key on
hold must not stop the roll-out of its own fix.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ehkafka.events import HandlerReport, StateReport
from ehkafka.intake.owned import waiting_events
from ehkafka.telemetry.health import POLL_SILENCE_S, health_of
from ehkafka.telemetry.picture import partition_snapshots, pictures
from ehkafka.telemetry.snapshot import COUNTED, HandlerSnapshot, Health, Snapshot
from ehkafka.wording import counted, seconds
from ehkafka.wording.live_stack import stacks_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ehkafka.events import Event
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.run.runtime import Runtime
    from ehkafka.telemetry.snapshot import PartitionSnapshot


def snapshot_of(runtime: Runtime) -> Snapshot:
    """Return an immutable picture of a run as it is now. Takes microseconds per unfinished record."""
    context, state = runtime.context, runtime.state
    throttle, contact = context.brokers.throttle, context.brokers.contact
    partitions, outliving = pictures(context, runtime.routes.all)
    tokens, delivery = runtime.app.endpoint.tokens, context.delivery
    is_empty = not (context.owned or context.owned.waiting)
    return Snapshot(
        group=runtime.app.settings.group,
        endpoint=runtime.app.endpoint.name,
        state=state,
        taken_at_s=time.time(),
        uptime_s=runtime.app.clock.now_s() - runtime.started_s,
        partitions=partitions,
        counters=runtime.bus.counters_snapshot(),
        throttled_s=throttle.total_s,
        is_throttled=throttle.is_recent,
        overdue=runtime.routes.overdue(),
        outliving=outliving,
        broker_silence_s=contact.silence_s,
        is_cut_off=contact.is_cut_off,
        is_standby=contact.is_member and is_empty and state == "running",
        lost_s=contact.lost_s,
        lost_partitions=contact.lost_partitions,
        socket_bytes=contact.socket_bytes,
        handled_bytes=sum(route.hub.tally.handled_bytes for route in runtime.routes.all),
        mirror=runtime.mirroring.state,
        handlers=tuple(map(_handler, runtime.routes.all)),
        poll_gap_s=runtime.poll_gap_s,
        token_valid_s=None if tokens is None else tokens.valid_s,
        unacknowledged_outputs=None if delivery is None else delivery.outputs.count(),
        unacknowledged_messages=runtime.sending.messages.count(),
        **totals_of(runtime),
    )


def totals_of(runtime: Runtime) -> dict[str, Any]:
    """Return the counts over all partitions that are or were ours."""
    tallies = [route.hub.tally for route in runtime.routes.all]
    return {name: sum(getattr(tally, name) for tally in tallies) for name in COUNTED}


def _handler(route: Route) -> HandlerSnapshot:
    """Return what a handler has done. The counts only rise, for metrics' sake."""
    failed = route.failed_attempts
    with route.hub.locked(noted=False) as inboxes:  # the look at its partitions has noted all
        # In one hold: apart they might show less than at the last look.
        finished = inboxes.tally.finished_records - inboxes.tally.restored_records
        is_stopped = inboxes.router.piles.stopped is not None
        stale = inboxes.tally.stale_records + failed.get("stale", 0)
    times = route.hub.call_times
    return HandlerSnapshot(
        handler=route.handler,
        topics=route.topics,
        workers=route.workers.size,
        workers_auto=None if route.auto is None else (route.auto.least, route.auto.most),
        attempts={"finished": finished, **failed, "stale": stale},
        call_counts=() if times is None else tuple(times.counts),
        calls_s=0.0 if times is None else times.sum_s,
        is_stopped=is_stopped,
    )


def health_of_run(runtime: Runtime) -> Health:
    """Return whether all is well with a run, else the reasons."""
    snapshot = snapshot_of(runtime)
    waiting = waiting_events(runtime.context.owned.waiting.copy(), runtime.context.clock())
    return health_of(
        snapshot,
        stuck_s=runtime.app.settings.stuck_s,
        unreachable_s=runtime.app.settings.unreachable_s,
        poll_silence_s=runtime.app.clock.now_s() - runtime.loop.last_turn_s,
        failure=None if (failure := runtime.ending.failure) is None else str(failure),
        commit_problem=commit_problem(runtime),
        problems=[*(event.sentence() for event in waiting), *runtime.problems()],
    )


def commit_problem(runtime: Runtime) -> str | None:
    """Return why the last commit failed, while a partition that it was for is ours, and not another's."""
    context = runtime.context
    is_ours = any(partition in context.owned for partition in context.committer.failed_partitions)
    return context.committer.problem if is_ours or runtime.ending.is_done else None


def not_live(runtime: Runtime) -> tuple[str, ...]:
    """Return why a run is not live, each reason as a sentence; none while it is, or has ended."""
    if runtime.ending.is_done:
        return ()
    reasons = []
    if runtime.is_polling is False:
        reasons.append("The poll thread has ended.")
    elif runtime.is_polling:
        silence_s = runtime.app.clock.now_s() - runtime.loop.last_turn_s
        limit_s = POLL_SILENCE_S
        if runtime.loop.membership.is_in_callback:
            # A drain has its time there, and librdkafka reports a member that takes longer as gone.
            limit_s = max(limit_s, int(runtime.app.consumer_properties()["max.poll.interval.ms"]) / 1000)
        if silence_s > limit_s and not runtime.ending.is_stopping:
            reasons.append(f"The poll loop has not run for {silence_s:.0f} s.")
    stranded_s = runtime.context.brokers.contact.stranded_s
    if stranded_s >= runtime.app.settings.unreachable_s:
        reasons.append(
            f"The client has known no broker for {stranded_s:.0f} s and cannot find a broker by itself "
            f"(librdkafka issue 5301): restart the app."
        )
    stuck_s = runtime.app.settings.stuck_s
    reasons += [
        f"{call.partition}@{call.offset} has run for {call.running_s:.0f} s in handler {call.handler!r}, "
        f"more than stuck_s={stuck_s:g} beyond deadline_s={call.deadline_s:g}."
        for call in runtime.routes.overdue()
        if call.running_s - call.deadline_s > stuck_s
    ]
    return tuple(reasons)


def not_started(runtime: Runtime) -> tuple[str, ...]:
    """Return what a run waits for before it is a member of its group; none from then on."""
    if runtime.ending.is_done:
        return (f"The app is {runtime.state}.",)
    if runtime.context.brokers.contact.has_joined:
        return ()
    if runtime.is_polling is None:
        return ("No broker has answered yet.",)
    return ("The group has not been joined yet.",)


def not_ready(runtime: Runtime) -> tuple[str, ...]:
    """Return why a run does not do its work now. A standby without partitions is ready."""
    if runtime.ending.is_stopping and not runtime.ending.is_done:
        return ("The app is stopping.",)
    if reasons := not_started(runtime):
        return reasons
    contact = runtime.context.brokers.contact
    if contact.is_unreachable:
        return (f"No broker has answered for {contact.silence_s:.0f} s.",)
    if contact.lost_s is not None:
        return ("All partitions were lost, and the group has given none back yet.",)
    return ()


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
        f"{snapshot.dead_lettered_records} dead-lettered, {snapshot.returned_records} left for the next "
        f"owner, {snapshot.stale_records} results ignored"
    )
    for one in snapshot.partitions:
        yield _line(one)


def _line(one: PartitionSnapshot) -> str:
    lag = "unknown" if one.lag_records is None else one.lag_records
    text = (
        f"{one.partition}: lag {lag}, backlog {one.backlog_records}, waiting {one.parked_records}, "
        f"queued keys {one.lanes}, commit position {one.watermark}, committed {one.committed}"
    )
    if one.paused:
        text += ", paused"
    if (oldest := one.oldest) is not None:
        text += f"; oldest @{oldest.offset} key {oldest.key}, {seconds(oldest.age_s)}: {oldest.state}"
    return text
