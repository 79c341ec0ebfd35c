"""One producer after another, for outputs and dead letters, or for `app.producer`.

It opens a producer, waits for its id at the start, notices when another one is needed, closes it within a
time limit and opens the next one after a wait. It keeps no messages: its owner keeps each one until it is
answered, and sends those without an answer again when a producer is closed. Used by one thread.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error, open_producer
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.producer_id import ProducerId
from ehkafka.endpoint.properties.layers import without_ids
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.events import (
    ClientLogged,
    ConnectionProblem,
    ProducerNotOpened,
    ProducerPlain,
    ProducerReplaced,
    Throttled,
)
from ehkafka.outputs.batch import batch_limit, with_limit
from ehkafka.outputs.properties import IN_FLIGHT_MAX
from ehkafka.outputs.replacement import Replacement
from ehkafka.outputs.standing import StalledPartitions
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer, ThrottleEvent

    from ehkafka.endpoint.keys.rotation import RotatingCredential
    from ehkafka.events import Event

    # Takes the callbacks of the client, and whether it works without a producer id.
    OpenProducer = Callable[["ClientCallbacks", bool], Producer]

# The start waits so long for a producer id. Then the app continues, and reports it.
ID_S = 10.0
ID_CHECK_S = 20e-3
# A producer that is closed waits so long for answers on the wire, and then so long to purge the rest.
LAST_ANSWERS_S = 2.0
PURGE_S = 3.0
LAST_CHECK_S = 50e-3
# Of a client that sends messages one by one: brokers refuse whole batches.
ALONE: Final = {"enable.gapless.guarantee": False, "batch.num.messages": 1}


class ClientCallbacks(NamedTuple):
    """The callbacks of a client: for errors, statistics, log lines and throttling."""

    error_cb: Callable[[KafkaError], None]
    stats_cb: Callable[[str], None]
    logger: ProducerId
    throttle_cb: Callable[[ThrottleEvent], None]


class OneProducer:
    """One producer at a time. `client` is None until the next one is opened."""

    def __init__(
        self,
        open_client: OpenProducer,
        *,
        emit: Callable[[Event], None],
        make_watch: Callable[[], CredentialWatch] | None = None,
        of: str = "dead letters",
        may_be_plain: bool = True,
    ) -> None:
        """`make_watch` returns the watch of a rotating credential, for one producer.

        `of` names in events what it sends. Without `may_be_plain`, a broker that supports no producer IDs is
        refused.
        """
        self._of = of
        self._may_be_plain = may_be_plain
        self._open_client = open_client
        self._emit = emit
        self._make_watch = make_watch
        self._replacement = Replacement()
        self._watch: CredentialWatch | None = None
        self._id = ProducerId(self._log)
        self._fatal: KafkaError | None = None
        self._opens_s = 0.0
        self._is_purging = False
        self.client: Any = None
        self._standing = StalledPartitions()
        # The largest batch of the next client, in bytes; None: its properties decide.
        self.batch_bytes: int | None = None
        # True after a broker turned out to have no producer ids.
        self.is_plain = False
        # Why nothing is acknowledged, as far as that is known. Replaced, never changed; read by any thread.
        self.problem: str | None = None

    def start(self, timeout_s: float = ID_S) -> None:
        """Open the first producer, and wait up to `timeout_s` for its id; 0: do not wait.

        Raises `ConfigurationError` if the client library refuses a property, and as `await_id` does.
        """
        self._open()
        self.await_id(timeout_s)

    def await_id(self, timeout_s: float = ID_S) -> None:
        """Wait up to `timeout_s` for the id of the producer that is open.

        Raises `EndpointError` if the broker refuses an id permanently. If the broker refuses for now, or does
        not answer, that is reported, and the client asks again.
        """
        ends_s = time.monotonic() + timeout_s
        while timeout_s:
            # First: without ids another producer is needed, although `has_id` is True then.
            if self._fatal is not None:
                self._take_refusal(self._fatal)
            elif self.has_id:
                return
            elif time.monotonic() >= ends_s:
                self.problem = (
                    f"the broker has not given the producer an ID: {self._id.refusal or 'no answer'}"
                )
                self._emit(ConnectionProblem("producer id", f"{self._of}: {self.problem}", fatal=False))
                return
            else:
                self.serve(ID_CHECK_S)

    def _take_refusal(self, refusal: KafkaError) -> None:
        self.give_up(0.0)
        if not self.is_plain:
            raise EndpointError(
                f"No {self._of} can be written, because the broker gives their producer no ID: "
                f"{ended(describe_error(refusal))}"
            )
        self._replacement, self.problem = Replacement(), None
        self._open()

    @property
    def has_id(self) -> bool:
        """Tell whether the producer may write."""
        return self.is_plain or self._id.is_given

    @property
    def is_lost(self) -> bool:
        """Tell whether another producer is needed: the owner calls `renew`."""
        return self.client is not None and self._replacement.is_wanted

    @property
    def has_ended(self) -> bool:
        """Tell whether the client has reported a fatal error: it sends nothing more."""
        return self._fatal is not None

    def due_s(self) -> float:
        """Return the seconds until the next producer is opened; 0 while there is one."""
        return 0.0 if self.client is not None else max(0.0, self._opens_s - time.monotonic())

    def acknowledged(self) -> None:
        """Note that a message is written."""
        self._replacement.acknowledged()
        self.problem = None

    def failed(self, error: KafkaError) -> None:
        """Note that a message was refused."""
        code = error.code()
        # `produce` raises `FATAL` itself; a delivery report has the flag.
        self._replacement.failed(code, is_fatal=error.fatal() or code == ClientCode.FATAL)
        # GAPLESS_GUARANTEE follows the report of a refused message, which explains more.
        if code != ClientCode.GAPLESS_GUARANTEE and (self.problem is None or code != ClientCode.FATAL):
            self.problem = describe_error(error)

    def reported(self) -> None:
        """Note a delivery report with an error, whatever it leads to."""
        self._replacement.reported()

    def serve(self, timeout_s: float) -> None:
        """Run the callbacks that are due, and follow a rotating credential."""
        if self._watch is not None:
            self._watch.apply()
        if self.client is not None:
            self._call(self.client.poll, timeout_s)
            if self._id.refusal is not None:
                self.problem = self._id.refusal

    @property
    def standing_problem(self) -> str | None:
        """Partitions that acknowledge nothing while messages wait for them, in words. Any thread."""
        return self._standing.problem

    @property
    def batches_max(self) -> int:
        """How many partitions may have a batch in flight: two for each request that brokers may have."""
        return self._standing.leaders * 2 * IN_FLIGHT_MAX

    def renew(self, *, is_fault: bool = True, waits: bool = False) -> None:
        """Close the producer. After a first failure since an acknowledgement the next one is opened at once.

        It is opened at once, too, if a message was the reason (not `is_fault`): waits would only grow,
        without any use. With `waits` the broker throttles, so there is always a wait.
        """
        was_of_use = not self._replacement.replaced
        at_once = (was_of_use or not is_fault) and not waits
        self.give_up(LAST_ANSWERS_S)
        wait_s = self._replacement.wait_s(counts=is_fault)
        if at_once:
            wait_s = 0.0
        self._opens_s = time.monotonic() + wait_s
        # Otherwise a message was the reason, and the producer has no problem of its own.
        if is_fault or self.problem is not None:
            reason = self.problem or "the broker refused its sequence numbers"
            self._emit(ProducerReplaced(self._of, reason, wait_s))

    def open_when_due(self) -> None:
        """Open the next producer when it is due; report it if that fails, once for each try."""
        if self.client is not None or time.monotonic() < self._opens_s:
            return
        try:
            self._open()
        except EhkafkaError as failed:
            self._opens_s = time.monotonic() + self._replacement.wait_s()
            self.problem = str(failed)
            self._emit(ProducerNotOpened(self._of, self.problem, self.due_s()))

    def give_up(self, answers_s: float, purge_s: float = PURGE_S) -> None:
        """Close the producer: wait up to `answers_s` for answers, then purge the rest within `purge_s`."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        producer, self.client = self.client, None
        if producer is None:
            return
        if answers_s:
            # First, so that no more messages go on the wire meanwhile.
            producer.purge(in_flight=False)
            # Messages on the wire may be written. Waiting for their answers keeps the log in order: a request
            # of the next producer could otherwise be faster.
            self._empty(producer, answers_s)
        # Each message in flight is reported; a gapless producer reports it with an error of its own.
        self._is_purging = True
        producer.purge()
        self._empty(producer, purge_s)
        self._is_purging = False

    def _empty(self, producer: Producer, timeout_s: float) -> None:
        """Wait until the producer has no messages. By `poll`: `flush` loses reports after an error."""
        # After a fatal error `flush` also raises `SystemError`, and the delivery reports are lost.
        ends_s = time.monotonic() + timeout_s
        while len(producer) and (left_s := ends_s - time.monotonic()) > 0:
            self._call(producer.poll, min(left_s, LAST_CHECK_S))

    def _call(self, poll: Callable[[float], int], timeout_s: float) -> None:
        """Run callbacks. Any of them may raise a fatal error as an exception."""
        try:
            poll(timeout_s)
        except KafkaException as failed:
            self._on_error(failed.args[0])

    def _open(self) -> None:
        if self.is_plain and not self._may_be_plain:
            raise EndpointError(
                f"This broker does not support producer IDs (InitProducerId), which keep {self._of} in "
                f"order. Use a broker with producer IDs, such as Kafka 0.11 or newer."
            )
        # The watch before the client: it must know which key the client has.
        watch = self._make_watch() if self._make_watch is not None else None
        self._id, self._fatal, self._standing = ProducerId(self._log), None, StalledPartitions()
        callbacks = ClientCallbacks(self._on_error, self._take_statistics, self._id, self._on_throttle)
        self.client = producer = self._open_client(callbacks, self.is_plain)
        self._watch = watch
        if watch is not None:
            watch.start(producer)

    def _take_statistics(self, statistics: str) -> None:
        reported = json.loads(statistics)
        self._id.take_statistics(reported)
        self._standing.take(reported, time.monotonic())
        self._replacement.raised(self._id.epochs_raised)

    def _on_error(self, error: KafkaError) -> None:
        """Take an error of the client itself."""
        if self._is_purging or (self.client is None and error.code() == ClientCode.GAPLESS_GUARANTEE):
            return  # from our own purge: answers that still come count
        if error.fatal():
            self._fatal = error
            self.failed(error)
            if error.code() == ClientCode.UNSUPPORTED_FEATURE and not self.is_plain:
                self.is_plain = True
                if self._may_be_plain:
                    self._emit(ProducerPlain(self._of, error.str()))
        if self._watch is not None and error.name() == "_AUTHENTICATION":
            self._watch.check_now()
        if error.code() != ClientCode.GAPLESS_GUARANTEE:
            self._emit(ConnectionProblem(error.name(), f"{self._of}: {describe_error(error)}", fatal=False))

    def _on_throttle(self, event: ThrottleEvent) -> None:
        # There is nothing to do: the broker delays its answer, and librdkafka waits for it.
        if event.throttle_time > 0:
            self._emit(Throttled(event.broker_name, event.throttle_time))

    def _log(self, level: int, line: str) -> None:
        self._emit(ClientLogged(level, line))


def producer_of(
    properties: Callable[[], dict[str, Any]],
    credential: RotatingCredential | None,
    *,
    emit: Callable[[Event], None],
    of: str,
    may_be_plain: bool = True,
) -> OneProducer:
    """Return a producer that is not open yet.

    `properties` returns those of the next client, whose key may have changed.
    """

    def open_client(callbacks: ClientCallbacks, is_plain: bool) -> Producer:
        its = with_limit(properties(), batch_limit(producer.batch_bytes))
        return open_producer(without_ids(its) if is_plain else its, **callbacks._asdict())

    def make_watch() -> CredentialWatch:
        return CredentialWatch(credential, emit)

    producer = OneProducer(open_client, emit=emit, make_watch=make_watch, of=of, may_be_plain=may_be_plain)
    return producer
