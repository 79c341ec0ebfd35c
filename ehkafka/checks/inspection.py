"""What the probes of one run share: the target, the clock of the current step, and what was found so far.

One probe at a time writes here, each on a thread of its own (`bounded`); the runner sets the deadline in
between.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ehkafka.checks.cleaning import Cleaner
from ehkafka.checks.result import Problem
from ehkafka.endpoint.bootstrap import bootstrap_addresses
from ehkafka.endpoint.causes import CAUSE_UNKNOWN, CAUSES
from ehkafka.endpoint.client import open_consumer
from ehkafka.endpoint.silent import SILENT
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as KafkaPartition
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from ehkafka.checks.target import Target
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

T = TypeVar("T")

CLOSE_S = 3.0
# A probe keeps its time by itself and says what it waited for; what hangs beyond that is cut off.
GRACE_S = 1.0
# So much of a step's time is left for its answer to come back.
LEAST_S = 0.05


class Address(NamedTuple):
    """One entry of the bootstrap list."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Inspection:
    """The shared state of one run."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self.cleaner = Cleaner()
        self.properties: dict[str, Any] = {}
        self.addresses: dict[str, Address] = {}
        self.resolved: dict[str, list[str]] = {}
        self.cluster: ClusterMetadata | None = None
        # A Kafka broker has answered a request that needs no client.
        self.is_kafka_there = False
        self.logs: dict[TopicPartition, LogBounds] = {}
        self.committed: dict[TopicPartition, KafkaPartition] = {}
        self.token_issued_at: datetime | None = None
        self.client_errors: list[KafkaError] = []
        self._consumer: Consumer | None = None
        self._is_stuck = False
        self._deadline_s = time.monotonic() + timeout_s

    def begin_step(self) -> None:
        """Give the next step its time."""
        self._deadline_s = time.monotonic() + self.timeout_s

    @property
    def remaining_s(self) -> float:
        """What is left of the step's time, never quite nothing."""
        return max(LEAST_S, self._deadline_s - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether the step's time is up."""
        return time.monotonic() >= self._deadline_s

    def use(self, properties: dict[str, Any]) -> None:
        """Take the client's properties."""
        self.cleaner.learn(properties)
        self.properties = properties
        named = (Address(*entry) for entry in bootstrap_addresses(str(properties["bootstrap.servers"])))
        self.addresses = {str(address): address for address in named}

    def listen(self, consumer: Consumer, wait_s: float) -> None:
        """Let the client's callbacks through, and note the errors that it delivers in place of records."""
        for message in consumer.consume(1, wait_s):
            if (error := message.error()) is not None:
                self.client_errors.append(error)

    def client_error(self, code: int) -> KafkaError | None:
        """Return and forget the error of this code that the client reported outside its answers, if any."""
        for error in self.client_errors:
            if error.code() == code:
                self.client_errors.remove(error)
                return error
        return None

    @property
    def protocol(self) -> str:
        """The security protocol, in librdkafka's capitals."""
        return str(self.properties.get("security.protocol", "PLAINTEXT")).upper()

    @property
    def mechanism(self) -> str | None:
        """The SASL mechanism; None without SASL."""
        if not self.protocol.startswith("SASL"):
            return None
        return str(self.properties.get("sasl.mechanisms", "GSSAPI")).upper()

    def consumer(self) -> Consumer:
        """Return the client of this run, opened on first use; it never subscribes."""
        if self._is_stuck:
            raise Problem("an earlier step still uses the client", "Fix that step first.")
        if self._consumer is None:
            self._consumer = self.open(self.properties)
        return self._consumer

    def open(self, properties: dict[str, Any], **callbacks: object) -> Consumer:
        """Open a client that notes the errors it hears of and logs nothing."""
        return open_consumer(properties, error_cb=self.client_errors.append, logger=SILENT, **callbacks)

    def give_up_client(self) -> None:
        """Never touch the client again: a thread that was given up may still be in it."""
        self._is_stuck = self._is_stuck or self._consumer is not None

    def close(self) -> None:
        """Close the client, within a bound."""
        if self._consumer is not None and not self._is_stuck:
            close_within(self._consumer, CLOSE_S)


def close_within(consumer: Consumer, timeout_s: float) -> None:
    """Close a client, which may wait for a broker that does not answer, for so long at most."""
    try:
        bounded(consumer.close, timeout_s, "close")
    except (Overdue, KafkaException):
        # It has joined no group, so no member waits for it to leave.
        return


def problem(what: str, error: KafkaError | KafkaException) -> Problem:
    """Return the problem behind an error of librdkafka, its usual cause as the fix."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    cause = CAUSES.get(inner.name(), CAUSE_UNKNOWN)
    return Problem(f"{what}: {inner.name()} ({inner.str()})", ended(f"{cause[0].upper()}{cause[1:]}"))


class Overdue(Exception):  # noqa: N818 - an answer, like a probe's own
    """The function had not returned in time; its thread still runs."""


def bounded(function: Callable[[], T], timeout_s: float, name: str) -> T:
    """Return what the function returns, or raise what it raises; raises `Overdue` after `timeout_s`.

    A look-up of a name, a user's token callback and librdkafka's close have no time-out of their own. So it
    runs on a daemon thread, which is left to itself once given up; whatever it uses must not be used
    again afterwards.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name=f"check-{name}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise Overdue(name)
    return results[0]
