"""Readiness: whether a run has joined its group, and whether it can do its work now.

Reads; called from any thread. No record counts here: a held key must not stop the roll-out of its own fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.run.runtime import Runtime


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
