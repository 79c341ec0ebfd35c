"""One transactional producer at a time, and its successors, all with one id.

The next producer with the same id makes the broker end an open transaction of the one before: the broker
aborts it, unless its commit had begun. Used by one thread, except `start_app`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.broker_errors import ALL_BROKERS_DOWN
from ehkafka.endpoint.client import describe_error
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem, Throttled
from ehkafka.outputs.standing import Standing
from ehkafka.transactions.hanging import HANGS, HANGS_S, HangsError, call_within
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Producer, ThrottleEvent

    from ehkafka.endpoint.keys.watch import CredentialWatch
    from ehkafka.events import Event

    # Takes the callbacks of the client, and the properties that limit its batches.
    OpenClient = Callable[["dict[str, object]", Mapping[str, int]], Producer]

# The broker has this time to give a producer id: it first ends the open transaction of the last producer.
INIT_S: Final = 10.0
# How long one call of the client may take: between two calls the loop checks whether it must end.
CALL_S: Final = 1.0
AGAIN_S: Final = 0.05
# An app's start waits so much longer than the broker lets the last process's transaction be open: a dead
# broker is noticed after up to 18 s, and coordinators look for such transactions every 10 s.
START_S: Final = 30.0
# From then on the log and health name what the start waits for, and a stop ends the wait.
REPORT_S: Final = 5.0
# How long a client that is closed is polled for its last reports.
PURGE_S: Final = 0.5
_BROKER_AWAY: Final = {KafkaError._TRANSPORT, ALL_BROKERS_DOWN}  # noqa: SLF001 - librdkafka's own code


class TransactionalProducer:
    """Owns the client. `client` is None until the next one is opened."""

    def __init__(
        self,
        open_client: OpenClient,
        *,
        emit: Callable[[Event], None],
        make_watch: Callable[[], CredentialWatch],
        transactional_id: str,
        timeout_s: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        """The broker ends a transaction after `timeout_s`. `is_stopping`: the app is to stop."""
        self._open_client = open_client
        self._emit = emit
        self._make_watch = make_watch
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._is_stopping = is_stopping
        # What the app's start waits for, in words. Read by any thread.
        self.start_problem: str | None = None
        self._watch: CredentialWatch | None = None
        self.client: Producer | None = None
        self._standing = Standing()
        # The properties that limit its batches.
        self.limit: Mapping[str, int] = {}
        # A broker was away, or a call failed. The next transaction has another client, so another epoch: with
        # the same one, a delayed request of this transaction could become a part of the next or end it
        # (Kafka's KIP-890), because librdkafka 2.16 has no epoch of each transaction. Nor does that client
        # wait without end for a coordinator that it remembers (confluentinc/librdkafka#5511). A slow call is
        # no reason: its request is not sent again.
        self.is_disturbed = False

    def start(
        self,
        limit: Mapping[str, int],
        on_delivery: Callable[[KafkaError | None, object], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open a client, and have the broker end an open transaction of an earlier one with this id.

        `on_delivery` is called for messages that fail. Raises `ConfigurationError` if the client library
        refuses a property, `KafkaException` if the broker refuses or does not answer in time, `HangsError` if
        the client does not return, or when `is_over`.
        """
        self.give_up()
        watch = self._make_watch()
        callbacks: dict[str, object] = {
            "error_cb": self._on_error,
            "throttle_cb": self._on_throttle,
            "logger": ClientLog(self._emit),
            "stats_cb": lambda text: self._standing.take(json.loads(text), time.monotonic()),
            "on_delivery": on_delivery,
        }
        self._standing = Standing()
        try:  # Ctrl-C may come at any place
            self._watch = watch
            self.client = client = self._open_client(callbacks, limit)
            watch.start(client)
            self.limit = limit
            self.is_disturbed = False
            self._init(client, is_over)
        except BaseException:
            self.give_up()
            raise

    @staticmethod
    def _init(client: Producer, is_over: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + INIT_S
        while True:
            try:
                call_within(lambda: client.init_transactions(CALL_S), HANGS_S, is_over)
            except KafkaException as failed:
                if not failed.args[0].retriable() or time.monotonic() >= ends_s or is_over():
                    raise
                time.sleep(AGAIN_S)
            else:
                return

    def start_app(
        self, limit: Mapping[str, int], on_delivery: Callable[[KafkaError | None, object], None]
    ) -> None:
        """Open the first one, as an app starts. Raises `ConfigurationError` or `EndpointError`.

        Waits until the broker has ended the transaction of the last process with this id. A client may wait
        without end, so each `INIT_S` it opens another one.
        """
        began_s = time.monotonic()

        def is_over() -> bool:
            return self._has_waited(time.monotonic() - began_s) and self._is_stopping()

        try:
            while True:
                try:
                    self.start(limit, on_delivery, is_over)
                except (KafkaException, HangsError) as failed:
                    error = failed.args[0] if isinstance(failed, KafkaException) else None
                    waited_s = time.monotonic() - began_s
                    is_refused = error is not None and not error.retriable()
                    if is_refused or is_over() or waited_s >= self._start_s:
                        self._fail(error, waited_s)
                else:
                    return
        finally:
            self.start_problem = None

    @property
    def _start_s(self) -> float:
        return self._timeout_s + START_S

    def _has_waited(self, waited_s: float) -> bool:
        """Tell whether the start takes long; the first time, report it."""
        if waited_s >= REPORT_S and self.start_problem is None:
            self.start_problem = (
                f"exactly_once waits up to {seconds(self._start_s)} for the transactional id {self._id!r}: "
                "the broker is still ending the last process's transaction, or does not answer; "
                "check that all brokers are up."
            )
            self._emit(ConnectionProblem("transactions", self.start_problem, fatal=False))
        return waited_s >= REPORT_S

    def _fail(self, error: KafkaError | None, waited_s: float) -> NoReturn:
        reason = HANGS if error is None else describe_error(error)
        if error is not None and not error.retriable():
            raise EndpointError(
                f"exactly_once: the broker refuses transactions: {ended(reason)} They need Apache Kafka 2.5 "
                "or newer, and rights to write and describe the transactional id (it begins with "
                "'ehkafka-<group>-'). Otherwise leave exactly_once out: then outputs are sent at least once."
            ) from None
        if error is not None and error.code() == KafkaError.CONCURRENT_TRANSACTIONS:
            what = "has not ended the last process's transaction"
        else:
            what = "gave no answer"
        raise EndpointError(
            f"exactly_once: the broker {what} in {seconds(waited_s)}, for the transactional id {self._id!r}: "
            f"{ended(reason)} Check that all brokers are up and that the topic __transaction_state has "
            "leaders, then start the app again."
        ) from None

    @property
    def standing_problem(self) -> str | None:
        """Partitions that acknowledge nothing while messages wait for them, in words. Any thread."""
        return self._standing.problem

    def serve(self, timeout_s: float = 0.0) -> None:
        """Run the callbacks that are due, and follow a rotating credential."""
        if self._watch is not None:
            self._watch.apply()
        if self.client is not None:
            self.client.poll(timeout_s)

    def give_up(self) -> None:
        """Close the client, and purge its messages."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        client, self.client = self.client, None
        if client is None:
            return
        client.purge()
        ends_s = time.monotonic() + PURGE_S
        while len(client) and time.monotonic() < ends_s:
            try:
                client.poll(0.05)
            except KafkaException:
                continue  # it has ended, for a reason that is known

    def _on_error(self, error: KafkaError) -> None:
        if self._watch is not None and error.name() == "_AUTHENTICATION":
            self._watch.check_now()
        self.is_disturbed |= error.code() in _BROKER_AWAY
        text = f"transactions: {describe_error(error)}"
        self._emit(ConnectionProblem(error.name(), text, fatal=False))

    def _on_throttle(self, event: ThrottleEvent) -> None:
        if event.throttle_time > 0:
            self._emit(Throttled(event.broker_name, event.throttle_time))
