"""What takes events: a hook of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ehkafka.events.event import Event


class Hook(Protocol):
    """Receives every event, one at a time, on the telemetry thread.

    It may block or raise: the data path never waits for it. An error is logged once per hook and kind
    of error and counted in `hook_errors`; events that a slow hook makes overflow are counted in
    `events_dropped`.
    """

    def on_event(self, event: Event, /) -> None:
        """Take one event."""
