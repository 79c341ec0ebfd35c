"""One producer after another: of dead letters, of outputs, of `app.producer`.

Opens a producer, waits for its id at the start, notices when it is of no use any more, closes it within a
bound and opens another one after a wait. It keeps no message: its owner holds each one until its answer, and
sends again what has none when a producer is closed. One thread's, like the producer itself.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.endpoint.producer_id import ProducerId
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.events import (
    ClientLogged,
    ConnectionProblem,
    DeadLetterProducerPlain,
    DeadLetterProducerReplaced,
    Throttled,
)
from ehkafka.outputs.properties import IN_FLIGHT_MAX
from ehkafka.outputs.replacement import Replacement
from ehkafka.outputs.standing import Standing
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer, ThrottleEvent

    from ehkafka.endpoint.keys.watch import CredentialWatch
    from ehkafka.events import Event

    # Given what the client is to call, and whether it is to do without an id.
    OpenProducer = Callable[["ClientCallbacks", bool], Producer]

# The start's patience with a broker that gives no id; then the app goes on, and says so.
ID_S = 10.0
ID_CHECK_S = 20e-3
# What a producer that is given up gets for answers that are on their way, and for handing back the rest.
LAST_ANSWERS_S = 2.0
PURGE_S = 3.0
LAST_CHECK_S = 50e-3
_FATAL = KafkaError._FATAL  # noqa: SLF001 - librdkafka's own codes start with an underscore
# It follows the report of a message that is refused, which says all there is to say.
_GAPLESS = KafkaError._GAPLESS_GUARANTEE  # noqa: SLF001
_UNSUPPORTED = KafkaError._UNSUPPORTED_FEATURE  # noqa: SLF001


class ClientCallbacks(NamedTuple):
    """What a client calls: its errors, its statistics, its log, what it was throttled."""

    error_cb: Callable[[KafkaError], None]
    stats_cb: Callable[[str], None]
    logger: ProducerId
    throttle_cb: Callable[[ThrottleEvent], None]


class OneProducer:
    """One producer at a time. `client` is None while the next one is waited for."""

    def __init__(
        self,
        open_client: OpenProducer,
        *,
        emit: Callable[[Event], None],
        make_watch: Callable[[], CredentialWatch] | None = None,
        of: str = "dead letters",
        replaced: Callable[[str, float], Event] = DeadLetterProducerReplaced,
        plain: Callable[[str], Event] | None = DeadLetterProducerPlain,
    ) -> None:
        """`make_watch` gives what follows a rotating credential for one producer.

        `of` says in events whose producer it is, `replaced` makes the one for a replacement, `plain` the one
        for a broker that gives no ids; None where `open_client` refuses that.
        """
        self._of = of
        self._replaced = replaced
        self._plain = plain
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
        self._standing = Standing()
        # How large the next client's batches may be at most; None: as its properties say.
        self.batch_bytes: int | None = None
        # True once a broker turned out to give no ids at all.
        self.is_plain = False
        # Why nothing is acknowledged, as far as the producer knows. Replaced, never changed; read by any
        # thread.
        self.problem: str | None = None

    def start(self, timeout_s: float = ID_S) -> None:
        """Open the first producer, and wait until the broker has given it an id; 0: do not wait.

        Raises `ConfigurationError` for what the client library refuses, `EndpointError` for an id that the
        broker refuses for good. One that it refuses for now, or does not answer, is reported and retried.
        """
        self._open()
        ends_s = time.monotonic() + timeout_s
        while timeout_s:
            # First: a producer that may do without an id is not this one.
            if self._fatal is not None:
                self._take_refusal(self._fatal)
            elif self.has_id:
                return
            elif time.monotonic() >= ends_s:
                self.problem = f"the broker has given the producer no id: {self._id.refusal or 'no answer'}"
                self._emit(ConnectionProblem("producer id", f"{self._of}: {self.problem}", fatal=False))
                return
            else:
                self.serve(ID_CHECK_S)

    def _take_refusal(self, refusal: KafkaError) -> None:
        self.give_up(0.0)
        if not self.is_plain:
            raise EndpointError(
                f"No {self._of} can be written: the broker refuses an id to their producer: "
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
        """Tell whether the producer is of no use any more: its owner calls `replace`."""
        return self.client is not None and self._replacement.is_wanted

    def due_s(self) -> float:
        """Return in how many seconds the next producer is opened; 0 while there is one."""
        return 0.0 if self.client is not None else max(0.0, self._opens_s - time.monotonic())

    def acknowledged(self) -> None:
        """Note that a message is written."""
        self._replacement.acknowledged()
        self.problem = None

    def failed(self, error: KafkaError) -> None:
        """Note that a message was refused."""
        # `produce` says _FATAL where a delivery report has the flag.
        self._replacement.failed(error.code(), is_fatal=error.fatal() or error.code() == _FATAL)
        if error.code() != _GAPLESS and (self.problem is None or error.code() != _FATAL):
            self.problem = describe_error(error)

    def reported(self) -> None:
        """Note a delivery report with an error, whatever it leads to."""
        self._replacement.reported()

    def serve(self, timeout_s: float) -> None:
        """Let the callbacks through, and follow a rotating credential."""
        if self._watch is not None:
            self._watch.apply()
        if self.client is not None:
            self._call(self.client.poll, timeout_s)
            if self._id.refusal is not None:
                self.problem = self._id.refusal

    @property
    def standing_problem(self) -> str | None:
        """Which partitions messages wait for that acknowledge nothing. Any thread."""
        return self._standing.problem

    @property
    def turns(self) -> int:
        """How many partitions may have a batch in flight: two for each request that brokers may have."""
        return self._standing.leaders * 2 * IN_FLIGHT_MAX

    def renew(self, *, is_fault: bool = True, waits: bool = False) -> None:
        """Give the producer up; the next one is opened at once, if this one was of any use.

        So it is where it is given up for what it was to send: waits would only grow, and nothing get better.
        With `waits` the broker wants less, so it is never at once.
        """
        was_of_use = not self._replacement.replaced
        at_once = (was_of_use or not is_fault) and not waits
        self.give_up(LAST_ANSWERS_S)
        wait_s = self._replacement.wait_s(counts=is_fault)
        if at_once:
            wait_s = 0.0
        self._opens_s = time.monotonic() + wait_s
        # Else it is given up for what it was to send, and has no problem of its own.
        if is_fault or self.problem is not None:
            self._emit(self._replaced(self.problem or "it lost its place", wait_s))

    def open_when_due(self) -> None:
        """Open the next producer if its time has come. Raises `EhkafkaError` when that fails, once each."""
        if self.client is not None or time.monotonic() < self._opens_s:
            return
        try:
            self._open()
        except EhkafkaError as failed:
            self._opens_s = time.monotonic() + self._replacement.wait_s()
            self.problem = str(failed)
            raise

    def give_up(self, answers_s: float, purge_s: float = PURGE_S) -> None:
        """Take back all that is not answered within `answers_s`, which takes `purge_s` at most."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        producer, self.client = self.client, None
        if producer is None:
            return
        if answers_s:
            # First of all, so that nothing more goes on the wire meanwhile.
            producer.purge(in_flight=False)
            # What is on the wire may be written. Better to know, and to have the log in order: the next
            # producer could otherwise be faster than the last one's request.
            self._empty(producer, answers_s)
        # Each message in flight comes back by its callback, of a gapless producer with an error of its own.
        self._is_purging = True
        producer.purge()
        self._empty(producer, purge_s)
        self._is_purging = False

    def _empty(self, producer: Producer, timeout_s: float) -> None:
        """Wait for the answers to all that the producer has. By `poll`: `flush` drops them at an error."""
        # At a fatal one it raises `SystemError`, too, and the delivery reports are gone.
        ends_s = time.monotonic() + timeout_s
        while len(producer) and (left_s := ends_s - time.monotonic()) > 0:
            self._call(producer.poll, min(left_s, LAST_CHECK_S))

    def _call(self, poll: Callable[[float], int], timeout_s: float) -> None:
        """Let callbacks through. A fatal error comes as an exception out of any of them."""
        try:
            poll(timeout_s)
        except KafkaException as failed:
            self._on_error(failed.args[0])

    def _open(self) -> None:
        # The watch before the client: it must know which key the client has.
        watch = self._make_watch() if self._make_watch is not None else None
        self._id, self._fatal, self._standing = ProducerId(self._log), None, Standing()
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
        if self._is_purging:
            return
        if error.fatal():
            self._fatal = error
            self.failed(error)
            if error.code() == _UNSUPPORTED and not self.is_plain:
                self.is_plain = True
                if self._plain is not None:
                    self._emit(self._plain(error.str()))
        if self._watch is not None and error.name() == "_AUTHENTICATION":
            self._watch.check_now()
        if error.code() != _GAPLESS:
            self._emit(ConnectionProblem(error.name(), f"{self._of}: {describe_error(error)}", fatal=False))

    def _on_throttle(self, event: ThrottleEvent) -> None:
        # Nothing is to be done: the broker takes the next request when it likes, and one is on its way.
        if event.throttle_time > 0:
            self._emit(Throttled(event.broker_name, event.throttle_time))

    def _log(self, level: int, line: str) -> None:
        self._emit(ClientLogged(level, line))
