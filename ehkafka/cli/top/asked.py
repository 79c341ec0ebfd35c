"""What `ehkafka top` asks of an app, on threads of textual's. All raise `EndpointError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from ehkafka.cli.door import Answer, Door

# A redrive takes as long as there are letters.
REDRIVE_S: Final = 600.0
# A topic is read, by one who asks after the other.
LETTERS_S: Final = 30.0
LETTERS_MAX: Final = 50


class Asked:
    """The routes of one app."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def state(self) -> Answer:
        """Return all that is shown."""
        return self._door.ask("GET", "/state")

    def act(self, action: dict[str, Any]) -> Answer:
        """Do something to a key, a partition or a handler, or say what it would do."""
        return self._door.ask("POST", "/actions", action)

    def letters(self, topic: str) -> Answer:
        """Return the newest letters of a topic."""
        path = f"/letters?topic={quote(topic, safe='')}&limit={LETTERS_MAX}"
        return self._door.ask("GET", path, timeout_s=LETTERS_S)

    def redrive(self, topic: str, *, preview: bool) -> Answer:
        """Send a topic's letters home, or say how many there are."""
        return self._door.ask("POST", "/letters/redrive", {"topic": topic, "preview": preview}, REDRIVE_S)
