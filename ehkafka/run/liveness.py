"""Liveness: what only a restart of the process cures; a broker that is away, or a held key, is none of it.

Readiness: whether a run has joined its group, and whether it can do its work now. No record counts there: a
held key must not stop the roll-out of its own fix. Reads; called from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.telemetry.health import POLL_SILENCE_S

if TYPE_CHECKING:
    from ehkafka.run.runtime import Runtime


def not_live(runtime: Runtime) -> tuple[str, ...]:
    """Return why a run is not live, each reason as a sentence; none while it is, or has ended."""
    if runtime.is_done:
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
        if silence_s > limit_s and not runtime.is_stopping:
            reasons.append(f"The poll loop has not run for {silence_s:.0f} s.")
    stranded_s = runtime.context.contact.stranded_s
    if stranded_s >= runtime.app.settings.unreachable_s:
        reasons.append(
            f"The client has known no broker for {stranded_s:.0f} s, and finds none by itself (librdkafka's "
            "issue 5301)."
        )
    stuck_s = runtime.app.settings.stuck_s
    reasons += [
        f"{call.partition}@{call.offset} has run for {call.running_s:.0f} s in handler {call.handler!r} "
        f"(deadline_s={call.deadline_s:g}, limit {stuck_s:g} s beyond it)."
        for call in runtime.overdue()
        if call.running_s - call.deadline_s > stuck_s
    ]
    return tuple(reasons)


def not_started(runtime: Runtime) -> tuple[str, ...]:
    """Return what a run waits for before it is a member of its group; none from then on."""
    if runtime.context.contact.has_joined:
        return ()
    if runtime.is_polling is None:
        return ("No broker has answered yet.",)
    return ("The group has not been joined yet.",)


def not_ready(runtime: Runtime) -> tuple[str, ...]:
    """Return why a run does not do its work now. A standby without partitions is ready."""
    if runtime.is_stopping:
        return ("The app stops.",)
    if reasons := not_started(runtime):
        return reasons
    contact = runtime.context.contact
    if contact.is_unreachable:
        return (f"No broker has answered for {contact.silence_s:.0f} s.",)
    if contact.lost_s is not None:
        return ("All partitions were lost, and none came back yet.",)
    return ()
