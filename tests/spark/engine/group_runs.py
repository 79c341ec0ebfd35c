"""Runs of one consumer group on the embedded broker, without Spark."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group.group import Group
from ehkafka.telemetry.bus import EventBus
from tests.kit.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable


PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class Runs:
    """Runs of one group: opened here, served by threads of their own, closed at the end."""

    def __init__(self, app_at: Callable[..., Any], parts_of: Callable[..., Any]) -> None:
        self._app_at, self._parts_of = app_at, parts_of
        self.failures: list[Exception] = []
        self.events = Events()
        self._undo = ExitStack()

    def open(self, **settings: Any) -> Group:
        """Open one that has not begun."""
        app = self._app_at(**settings)
        app.handler("t")(lambda _record: None)
        parts = self._parts_of(app)
        bus = EventBus((self.events,))
        bus.start()
        self._undo.callback(bus.close, 1.0)
        group = Group(parts, bus, self.failures.append)
        self._undo.callback(group.close, deadline_s=0.0)
        group.open()
        return group

    def begin(self, **settings: Any) -> Group:
        """Open one and let it take the group."""
        group = self.open(**settings)
        group.take(group.begin())
        return group

    def serve(self, group: Group) -> None:
        """Let one live: a thread serves it until the end."""
        ended = threading.Event()

        def live() -> None:
            while not ended.is_set():
                group.serve(0.05)

        thread = threading.Thread(target=live)
        thread.start()
        self._undo.callback(thread.join)
        self._undo.callback(ended.set)

    def close(self) -> None:
        """End all."""
        self._undo.close()
