"""What the probes of one run share: the endpoint, clients that are closed at the end, names of the run's own.

One probe at a time uses it, on a thread of its own that may be left running when its time is up; so all that
it opens is noted here, and closed by the main thread.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from confluent_kafka.cimpl import NewTopic

import ehkafka
from _live.probe import NotTried
from ehkafka.checks.cleaning import Cleaner
from ehkafka.checks.inspection import CLOSE_S, Overdue, bounded
from ehkafka.embedded import topics
from ehkafka.endpoint.client import open_admin, open_consumer, open_producer
from ehkafka.endpoint.properties.layers import admin_properties, consumer_properties, producer_properties
from ehkafka.endpoint.silent import SILENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

    from _live.given import Given
    from _live.ledger import Ledger
    from _live.waits import Waits

REQUEST_S = 15.0
# So much may the service's clock and this machine's differ.
CLOCKS_DIFFER = timedelta(minutes=5)
EVERY_S = 0.02


class Site:
    """The namespace as the probes see it."""

    def __init__(self, given: Given, ledger: Ledger, waits: Waits) -> None:
        self.given = given
        self.ledger = ledger
        self.waits = waits
        self.cleaner = Cleaner()
        for secret in given.secrets:
            self.cleaner.learn_secret(secret)
        self.endpoint = given.endpoint()
        # A topic of the user's may hold much that is older.
        self._start = datetime.now(UTC) - CLOCKS_DIFFER
        self._admin: AdminClient | None = None
        # The topic for records; set by the probe `topics`.
        self.topic = ""
        self.is_over = threading.Event()
        self._to_close: list[Callable[[], object]] = [self.endpoint.close]

    # --- names ---------------------------------------------------------------------------------------

    def group(self, name: str) -> str:
        """Return a consumer group of the run's own."""
        full = f"{self.ledger.prefix}{name}"
        self.ledger.add("groups", full)
        return full

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic of the run's own and return its name. Raises `KafkaException`."""
        full = f"{self.ledger.prefix}{name}"
        self.ledger.add("topics", full)
        wanted = NewTopic(full, partitions, 1, config=dict(config or {}))
        answer = self.admin().create_topics([wanted], request_timeout=REQUEST_S)
        answer[full].result(REQUEST_S)
        if not self.wait(lambda: self.partitions(full) == partitions, REQUEST_S):
            raise NotTried(f"the topic was created, but has {self.partitions(full)} of {partitions} leaders")
        return full

    def partitions(self, topic: str) -> int:
        """Return how many partitions with a leader a topic has."""
        found = self.admin().list_topics(timeout=REQUEST_S).topics.get(topic)
        return sum(one.leader >= 0 for one in found.partitions.values()) if found else 0

    # --- clients -------------------------------------------------------------------------------------

    def admin(self) -> AdminClient:
        """Return the client for topics and groups: it must outlive its answers."""
        if self._admin is None:
            self._admin = quiet_admin(self.endpoint)
        return self._admin

    def consumer(self, group: str, overrides: Mapping[str, Any] | None = None, **callbacks: Any) -> Consumer:
        """Open a consumer with the engine's properties, and with others over them that it would refuse."""
        # The engine's own limit of a group's name is one that is to be crossed.
        short = self.ledger.prefix
        own = consumer_properties(self.endpoint, short, {}, assignor="default", instance_id=None)
        asked = {**own, **(overrides or {}), "group.id": group}
        return self._kept(open_consumer(asked, **_quiet(callbacks)))

    def plain_consumer(self, properties: Mapping[str, Any], **callbacks: Any) -> Consumer:
        """Open a consumer with nothing of the engine's but the connection."""
        return self._kept(
            open_consumer({**self.endpoint.client_properties(), **properties}, **_quiet(callbacks))
        )

    def _kept(self, consumer: Consumer) -> Consumer:
        self._to_close.append(consumer.close)
        return consumer

    def producer(self, overrides: Mapping[str, Any] | None = None, **callbacks: Any) -> Producer:
        """Open a producer with the engine's properties, and with others over them that it would refuse."""
        own = producer_properties(self.endpoint, {})
        return open_producer({**own, **(overrides or {})}, **_quiet(callbacks))

    def produce(self, topic: str, records: list[tuple[Any, Any]], **options: Any) -> None:
        """Write records and wait for their acknowledgements. Raises `EndpointError`."""
        properties = {**producer_properties(self.endpoint, {}), **_quiet()}
        topics.produce(
            properties["bootstrap.servers"], topic, records, properties=properties, timeout_s=30.0, **options
        )

    def app(self, group: str, **options: Any) -> ehkafka.App:
        """Return an app of this group, which is stopped at the end if it still runs."""
        endpoint = options.pop("endpoint", self.endpoint)
        app = ehkafka.App(group=group, endpoint=endpoint, start=self._start, **options)
        self._to_close.append(lambda: app.stop(drain=False, timeout_s=CLOSE_S))
        return app

    @contextmanager
    def running(self, app: ehkafka.App) -> Iterator[None]:
        """Start the app and stop it in order."""
        app.start()
        try:
            yield
        finally:
            app.stop(timeout_s=REQUEST_S)

    def closed_at_the_end(self, close: Callable[[], object]) -> None:
        """Note what is to be closed."""
        self._to_close.append(close)

    def close(self) -> None:
        """Close all that probes have opened; each within a bound."""
        self.is_over.set()
        while self._to_close:
            close = self._to_close.pop()
            # Closed already, hung, or of a broker that is away: the run is over in any case.
            with suppress(Overdue, Exception):
                bounded(close, CLOSE_S + 1.0, "close")

    # --- waiting -------------------------------------------------------------------------------------

    def pause(self, wait_s: float) -> None:
        """Wait. Raises `NotTried` when the run is over."""
        if self.is_over.wait(wait_s):
            raise NotTried("the run is over")

    def wait(self, condition: Callable[[], object], limit_s: float) -> bool:
        """Wait until the condition holds; return whether it does in time."""
        give_up_s = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > give_up_s:
                return False
            self.pause(EVERY_S)
        return True


def quiet_admin(endpoint: ehkafka.Endpoint) -> AdminClient:
    """Open a client for topics and groups that writes nothing to the terminal."""
    return open_admin(admin_properties(endpoint), **_quiet())


def _quiet(callbacks: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return callbacks that keep librdkafka from writing to the terminal."""
    return {"logger": SILENT, "error_cb": _ignored, **(callbacks or {})}


def _ignored(_error: KafkaError) -> None:
    """What is an error of a probe comes with its answer."""
