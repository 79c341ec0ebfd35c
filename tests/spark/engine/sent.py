"""What the tests of a task's outputs have in common: an app, its task, and what is in the topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ehkafka
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from ehkafka.spark.engine.tasks.work import TaskWork
    from ehkafka.testing import EmbeddedBroker


class Out:
    """A broker with topics for outputs, and what is in them."""

    def __init__(self, broker: EmbeddedBroker, lab: Any) -> None:
        self.broker = broker
        self.lab = lab

    def app(self, handler: Any, **options: Any) -> ehkafka.App:
        """Return an app whose handler of `t` sends to `out`."""
        app: ehkafka.App = self.lab.make_app(endpoint=ehkafka.Endpoint.kafka(self.broker.bootstrap))
        app.handler("t", **{"to": "out", **options})(handler)
        return app

    def work(self, app: ehkafka.App, *logs: Any) -> TaskWork:
        """Return a task over these logs."""
        work: TaskWork = self.lab.task_of(app, *logs)
        return work

    def read(self, topic: str = "out") -> list[tuple[bytes, bytes]]:
        """Return key and value of all that is in a topic now, each partition's in order."""
        return read_all(self.broker.bootstrap, topic)


def by_thread(record: Any) -> Any:
    """Send the offset."""
    return str(record.offset())


def wanted(*logs: list[Any]) -> dict[bytes, list[bytes]]:
    """Return what each key's outputs are to be, in order."""
    found: dict[bytes, list[bytes]] = {}
    for one in (one for log in logs for one in log):
        found.setdefault(one.key(), []).append(b"%d" % one.offset())
    return found
