"""librdkafka's own log lines, as events: a blocked log sink must not block the poll thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import ClientLogged

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event


class ClientLog:
    """What confluent-kafka takes for a logger: it calls `log` inside `consume()`."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit

    def log(self, level: int, text: str, *arguments: object) -> None:
        """Pass one line on."""
        self._emit(ClientLogged(level, text % arguments if arguments else text))
