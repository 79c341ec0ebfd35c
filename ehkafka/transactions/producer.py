"""One transactional producer at a time, and its successors, all with one id.

The next one with the same id makes the broker end what the one before has left open: aborted, unless its
commit had begun. One thread's, but for `start_app`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.broker_errors import ALL_BROKERS_DOWN
from ehkafka.endpoint.client import describe_error
from ehkafka.endpoint.client_log import ClientLog
from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem, Throttled
from ehkafka.outputs.standing import Standing
from ehkafka.transactions.hanging import HANGS, HANGS_S, HangsError, call_within
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Producer, ThrottleEvent

    from ehkafka.endpoint.keys.watch import CredentialWatch
    from ehkafka.events import Event

    # Given what the client calls, and how large its batches may be: properties.
    OpenClient = Callable[["dict[str, object]", Mapping[str, int]], Producer]

# What the broker gets for a producer's id: it ends what the last one has left open meanwhile.
INIT_S: Final = 10.0
# What one call of the client may take: between two of them it is looked whether all is still wanted.
CALL_S: Final = 1.0
AGAIN_S: Final = 0.05
# How long a client that is given up is polled for what it still has to say.
PURGE_S: Final = 0.5
_BROKER_AWAY: Final = {KafkaError._TRANSPORT, ALL_BROKERS_DOWN}  # noqa: SLF001 - librdkafka's own code


class TransactionalProducer:
    """Owns the client. `client` is None between two of them."""

    def __init__(
        self,
        open_client: OpenClient,
        *,
        emit: Callable[[Event], None],
        make_watch: Callable[[], CredentialWatch],
    ) -> None:
        self._open_client = open_client
        self._emit = emit
        self._make_watch = make_watch
        self._watch: CredentialWatch | None = None
        self.client: Producer | None = None
        self._standing = Standing()
        # How large its batches may be.
        self.limit: Mapping[str, int] = {}
        # A broker was away. The client may then wait for ever for a coordinator that it remembers
        # (confluentinc/librdkafka#5511): the next transaction has another one.
        self.has_lost_brokers = False

    def start(
        self,
        limit: Mapping[str, int],
        on_delivery: Callable[[KafkaError | None, object], None],
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Open a client and have the broker end what an earlier one with this id has left open.

        `on_delivery` hears of messages that fail. Raises `ConfigurationError` for what the client library
        refuses, `KafkaException` for what the broker does, or where it does not answer in time, `HangsError`
        where the client never does, or once `is_over`.
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
        client = self._open_client(callbacks, limit)
        watch.start(client)
        self._watch, self.client, self.limit = watch, client, limit
        self.has_lost_brokers = False
        try:
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
        """Open the first one, as an app starts. Raises `ConfigurationError` or `EndpointError`."""
        try:
            self.start(limit, on_delivery)
        except (KafkaException, HangsError) as failed:
            reason = describe_error(failed.args[0]) if isinstance(failed, KafkaException) else HANGS
            raise EndpointError(
                "exactly_once: the broker gives no transactions to this app: "
                f"{ended(reason)} Transactions need Apache Kafka 2.5 or later, and rights to "
                "write and describe the transactional id (its name begins with 'ehkafka-' and the group). "
                "Else leave exactly_once out: then outputs are sent at least once."
            ) from None

    @property
    def standing_problem(self) -> str | None:
        """Which partitions messages wait for that acknowledge nothing. Any thread."""
        return self._standing.problem

    def serve(self, timeout_s: float = 0.0) -> None:
        """Let callbacks through, and follow a rotating credential."""
        if self._watch is not None:
            self._watch.apply()
        if self.client is not None:
            self.client.poll(timeout_s)

    def give_up(self) -> None:
        """Close the client; what it has is taken back."""
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
                continue  # it has ended; what it says is known

    def _on_error(self, error: KafkaError) -> None:
        if self._watch is not None and error.name() == "_AUTHENTICATION":
            self._watch.check_now()
        self.has_lost_brokers |= error.code() in _BROKER_AWAY
        text = f"transactions: {describe_error(error)}"
        self._emit(ConnectionProblem(error.name(), text, fatal=False))

    def _on_throttle(self, event: ThrottleEvent) -> None:
        if event.throttle_time > 0:
            self._emit(Throttled(event.broker_name, event.throttle_time))
