"""Asks the broker for one run which logs it reads, and where they begin and end: with clients of its own.

Called by `Runtime`, before any thread of the run exists and at its end. Opens nothing itself: the asking
thread does, with the key of that moment.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.client import open_admin, open_consumer
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.endpoint.properties.layers import admin_properties, consumer_properties
from ehkafka.endpoint.silent import SILENT
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.positions.witness import witness_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

    from ehkafka.run.options import AppOptions
    from ehkafka.telemetry.bus import EventBus


class LogIdentity:
    """`asker` asks which logs a run reads, `bounds_asker` where they begin and end."""

    def __init__(self, app: AppOptions, bus: EventBus, on_death: Callable[[BaseException], None]) -> None:
        self._endpoint = app.endpoint
        self._settings = app.settings
        self._bus = bus
        # The embedded broker never answers.
        ids = TopicIds(None if app.endpoint.is_embedded else self._open_admin)
        self.asker = LogAsker(ids, self.open_consumer, on_death)
        # On a thread of its own: a broker that does not answer about ids must not make lags old.
        self.bounds_asker = LogAsker(TopicIds(None), self.open_consumer, on_death)

    def stop(self) -> None:
        """Ask nothing any more; returns at once."""
        self.asker.stop()
        self.bounds_asker.stop()

    def _open_admin(self) -> AdminClient:
        # Whatever is wrong with the connection the run's consumer tells, too.
        properties = {**admin_properties(self._endpoint), "log_level": 0}
        return open_admin(properties, logger=SILENT)

    def open_consumer(self, own: Mapping[str, object] = MappingProxyType({})) -> Consumer:
        """Open a consumer that joins no group: it is given partitions, and its group commits nothing.

        `own` are properties of this one.
        """
        settings = self._settings
        properties: dict[str, Any] = consumer_properties(
            self._endpoint, settings.group, settings.consumer, assignor=settings.assignor, instance_id=None
        )
        return open_consumer({**witness_properties(properties), **own}, logger=ClientLog(self._bus.emit))
