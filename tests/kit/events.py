"""One recorder of events for all tests: a hook of an app, or what a part emits to; and all their kinds."""

from __future__ import annotations

import inspect
from typing import Any

from ehkafka import events
from ehkafka.events import Event


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


def event_kinds() -> set[type[Event]]:
    """Return each kind of event that is emitted: a class of the catalogue that is no base of others."""
    found = (kind for _, kind in inspect.getmembers(events, inspect.isclass) if issubclass(kind, Event))
    return {kind for kind in found if not kind.__subclasses__()}
