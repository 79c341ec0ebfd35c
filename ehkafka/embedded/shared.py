"""Owns the life of the embedded broker behind `Endpoint.embedded()`.

Starts it on first use, stops it on close, and makes missing topics. Shared by every app and
producer that was given the same endpoint; any thread may call it, one lock guards all its fields.
It must never be reached from the hot path. A process may lend its broker to others, which it has started:
they use its address, and start none of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.embedded.broker import EmbeddedBroker, check_count, check_topics
from ehkafka.embedded.mock_cluster import EmbeddedBrokerError
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Kafka's protocol; its name in the client would have to be imported from there.
_TOPIC_ALREADY_EXISTS = 36


class Loan(NamedTuple):
    """Another process's broker: its address, and the topics that it has."""

    bootstrap: str
    topics: tuple[str, ...]


class SharedBroker:
    """One embedded broker for all who hold the endpoint; `partitions` is what a new topic gets."""

    def __init__(self, topics: Mapping[str, int], partitions: int) -> None:
        check_topics(topics)
        check_count(partitions, "A topic")
        self._lock = threading.Lock()
        # Written and read under the lock only.
        self._topics = dict(topics)
        self._partitions = partitions
        # Topics that were made in addition to those.
        self._made: set[str] = set()
        self._broker: EmbeddedBroker | None = None
        self._closed = False
        self._loan: Loan | None = None

    def client_properties(self) -> dict[str, Any]:
        """Return the broker's address, starting it on the first call."""
        with self._lock:
            bootstrap = self._started().bootstrap if self._loan is None else self._loan.bootstrap
            return {"bootstrap.servers": bootstrap}

    @property
    def broker(self) -> EmbeddedBroker:
        """The broker itself, started if it is not running. Raises `ConfigurationError` for a borrowed one."""
        with self._lock:
            if self._loan is not None:
                raise ConfigurationError("The embedded broker belongs to another process: use it only there.")
            return self._started()

    def prepare(self, topics: Iterable[str]) -> None:
        """Create the topics that do not exist; those that do stay as they are."""
        if isinstance(topics, str) or not isinstance(topics, Iterable):
            raise ConfigurationError(f"prepare_topics: give a list of names, not a {type(topics).__name__}.")
        with self._lock:
            if self._loan is not None:
                self._must_be_lent(self._loan, topics)
                return
            broker = self._started()
            for topic in topics:
                _create(broker, topic, self._partitions)
                self._made.add(topic)

    def lend(self, topics: Iterable[str]) -> Loan:
        """Start the broker with these topics, and return what another process needs to use it."""
        self.prepare(topics)
        with self._lock:
            return Loan(self._started().bootstrap, tuple(sorted({*self._topics, *self._made})))

    def borrow(self, loan: Loan) -> None:
        """Use another process's broker from now on. One that was started here goes, with its records."""
        with self._lock:
            broker, self._broker, self._loan = self._broker, None, loan
            if broker is not None:
                broker.close()

    @staticmethod
    def _must_be_lent(loan: Loan, topics: Iterable[str]) -> None:
        if missing := sorted(set(topics) - set(loan.topics)):
            raise ConfigurationError(
                f"prepare_topics: the embedded broker that all members share has no topic {missing[0]!r}, "
                "and members cannot make topics: name the topic in Endpoint.embedded({'TOPIC': PARTITIONS})."
            )

    def close(self) -> None:
        """Stop the broker; its records are gone. A second call does nothing."""
        with self._lock:
            broker, self._broker, self._closed = self._broker, None, True
            if broker is not None:
                broker.close()

    def _started(self) -> EmbeddedBroker:
        if self._closed:
            # A fresh, empty broker would look like lost records.
            raise ConfigurationError(
                "the embedded endpoint was closed and its records are gone; make a new Endpoint.embedded()"
            )
        if self._broker is None:
            broker = EmbeddedBroker(self._topics)
            broker.start()
            self._broker = broker
        return self._broker


def _create(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    try:
        broker.create_topic(topic, partitions)
    except EmbeddedBrokerError as refusal:
        # Given at the start, prepared by another app, or made by a producer that came first.
        if refusal.code != _TOPIC_ALREADY_EXISTS:
            raise
