"""Liveness: what only a restart of the process cures. A broker that is away, or a held key, is none of it.

Reads; called from any thread.
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
    stuck_s = runtime.app.settings.stuck_s
    reasons += [
        f"{call.partition}@{call.offset} has run for {call.running_s:.0f} s in handler {call.handler!r} "
        f"(deadline_s={call.deadline_s:g}, limit {stuck_s:g} s beyond it)."
        for call in runtime.overdue()
        if call.running_s - call.deadline_s > stuck_s
    ]
    return tuple(reasons)
