"""One transactional producer at a time, and its successors, all with one id.

The next producer with the same id makes the broker end an open transaction of the one before: the broker
aborts it, unless its commit had begun. Used by one thread, except `start_app`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.records.client_codes import ClientCode
from ehkafka.transactions.hanging import HANGS, HANGS_S, HangsError, call_within
from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Producer

    from ehkafka.endpoint.keys.watch import CredentialWatch
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import ClientCallbacks

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
_BROKER_AWAY: Final = {ClientCode.TRANSPORT, ClientCode.ALL_BROKERS_DOWN}


class TransactionalProducer:
    """Owns the client, which `OneProducer` opens and closes."""

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
        self._id = transactional_id
        self._timeout_s = timeout_s
        self._is_stopping = is_stopping
        # What the app's start waits for, in words. Read by any thread.
        self.start_problem: str | None = None
        self._one = OneProducer(
            self._open, emit=emit, make_watch=make_watch, of="transactions", may_be_plain=False
        )
        self._on_delivery: Callable[[KafkaError | None, object], None] | None = None
        # The properties that limit the batches of its client.
        self.limit: Mapping[str, int] = {}
        # A broker was away, or a call failed. The next transaction has another client, so another epoch: with
        # the same one, a delayed request of this transaction could become a part of the next or end it
        # (Kafka's KIP-890), because librdkafka 2.16 has no epoch of each transaction. Nor does that client
        # wait without end for a coordinator that it remembers (confluentinc/librdkafka#5511). A slow call is
        # no reason: its request is not sent again.
        self.is_disturbed = False

    @property
    def client(self) -> Any:
        """The client; None until the next one is opened."""
        return self._one.client

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
        self.limit, self._on_delivery = limit, on_delivery
        try:  # Ctrl-C may come at any place
            self._one.start(0.0)
            self.is_disturbed = False
            self._init(self.client, is_over)
        except BaseException:
            self.give_up()
            raise

    def _open(self, callbacks: ClientCallbacks, _is_plain: bool) -> Producer:
        def on_error(error: KafkaError) -> None:
            self.is_disturbed |= error.code() in _BROKER_AWAY
            callbacks.error_cb(error)

        given = {**callbacks._asdict(), "error_cb": on_error, "on_delivery": self._on_delivery}
        return self._open_client(given, self.limit)

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
                "the broker is still ending the transaction of the last process, or does not answer. If "
                "this lasts, check that all brokers are up."
            )
            self._emit(ConnectionProblem("transactions", self.start_problem, fatal=False))
        return waited_s >= REPORT_S

    def _fail(self, error: KafkaError | None, waited_s: float) -> NoReturn:
        reason = HANGS if error is None else describe_error(error)
        if error is not None and not error.retriable():
            raise EndpointError(
                f"exactly_once: the broker refuses transactions: {ended(reason)} Transactions need Apache "
                f"Kafka 2.5 or newer, and the rights Write and Describe on the transactional ID (it begins "
                f"with 'ehkafka-<group>-'). Otherwise leave exactly_once out: outputs are then sent at "
                f"least once."
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
        return self._one.standing_problem

    def serve(self) -> None:
        """Run the callbacks that are due, and follow a rotating credential."""
        self._one.serve(0.0)

    def give_up(self) -> None:
        """Close the client, and purge its messages."""
        self._one.give_up(0.0, PURGE_S)
