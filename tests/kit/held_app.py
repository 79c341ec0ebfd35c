"""A real app of which one key is held, with its HTTP side, for tests of what shows and frees it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import ehkafka
from ehkafka.events import HttpServing
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.testing import EmbeddedBroker

VALUE = b'{"home": 1, "sensor": null}'


class Held(NamedTuple):
    """The app, and where it answers."""

    app: Any
    url: str
    broker: EmbeddedBroker

    def committed(self) -> int | None:
        """Return what the broker has of the only partition."""
        committed: int | None = self.app.snapshot().partitions[0].committed
        return committed

    def poison(self) -> None:
        """Write a record that its handler cannot handle, and one of its key behind it."""
        self.broker.produce("t", [(b"home-1", VALUE), (b"home-1", b"fine"), (b"home-2", b"fine")])


@contextmanager
def held_app(broker: EmbeddedBroker) -> Iterator[Held]:
    """Run it on topic `t`, with whatever token the environment has."""
    app = ehkafka.App(
        group="homes",
        endpoint=ehkafka.Endpoint.kafka(broker.bootstrap),
        start="earliest",
        commit_interval_s=0.1,
        http="127.0.0.1:0",
    )

    @app.handler("t", on_failure=ehkafka.Hold())
    def store_reading(record: Any) -> None:
        if record.value() == VALUE:
            raise ValueError("a reading without a sensor")

    events = Events()
    app.add_hook(events)
    with app:
        wait_until(lambda: events.of(HttpServing) and app.snapshot().partitions)
        yield Held(app, events.of(HttpServing)[0].url, broker)
