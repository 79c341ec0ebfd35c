"""One recorder of events for all tests: a hook of an app, or what a part emits to."""

from __future__ import annotations

from typing import Any


class Events(list[Any]):
    """All events in the order in which they came: `app.add_hook(events)` or `emit=events.append`.

    They come from any thread; a list's `append` is whole.
    """

    def on_event(self, event: object) -> None:
        """Keep it."""
        self.append(event)

    def of(self, *kinds: type) -> list[Any]:
        """Return those of these kinds."""
        return [event for event in self if isinstance(event, kinds)]
