"""One native mock cluster: its lifetime, and calls on it whose failures are exceptions.

Responsible for the two native objects (a silent librdkafka client and the cluster hung on
it) from creation to destruction, whichever of `destroy`, garbage collection and
interpreter exit comes first. It must never know what a topic or a fault is; `broker`
does, and is its only caller, on any thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
import weakref
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from ehkafka.embedded.mock_api import PRODUCER, function
from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from collections.abc import Iterator


# See `MockCluster.call`.
BETWEEN_CALLS_S = 0.5e-3
ADDRESSES: Final[set[str]] = set()
"""`host:port` of the brokers that run in this process, by which an endpoint knows that it leads to one."""
# What a cluster has in addition to a listener for each broker, with some to spare.
_DESCRIPTORS_OF_A_CLUSTER = 10


class EmbeddedBrokerError(EhkafkaError):
    """The embedded broker is closed, or its native part refused a call.

    - `message` (required): what was refused.
    - `code` (default `0`): Kafka's error code. 0: there is none.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class MockCluster:
    """A native mock cluster of `brokers` brokers with ids 1…`brokers`."""

    def __init__(self, brokers: int) -> None:
        _check_descriptors(brokers)
        with _signals_blocked():
            client = _silent_client()
            cluster = function("rd_kafka_mock_cluster_new")(client, brokers)
        self._cluster = cluster
        self._bootstrap: str = function("rd_kafka_mock_cluster_bootstraps")(cluster).decode("ascii")
        ADDRESSES.update(self._bootstrap.split(","))
        self._finalizer = weakref.finalize(self, _destroy, cluster, client, self._bootstrap, os.getpid())

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, joined by commas."""
        self._alive()
        return self._bootstrap

    def call(self, name: str, *arguments: object) -> None:
        """Call librdkafka's function `name` on this cluster; raise if it returns an error code."""
        code = function(name)(self._alive(), *arguments)
        # The cluster's thread answers before it is back at its queue; a call that comes in between does
        # not wake it and waits a whole second.
        time.sleep(BETWEEN_CALLS_S)
        if code:
            error = KafkaError(code)
            raise EmbeddedBrokerError(
                f"The embedded broker refused {name}({', '.join(map(repr, arguments))}): "
                f"{error.name()} ({error.str()}).",
                code,
            )

    def requests(self) -> list[tuple[int, int, int]]:
        """Return (API key, broker id, monotonic microseconds) of every request tracked."""
        count = ctypes.c_size_t()
        found = function("rd_kafka_mock_get_requests")(self._alive(), ctypes.byref(count))
        if not found:
            return []
        api_key = function("rd_kafka_mock_request_api_key")
        broker_id = function("rd_kafka_mock_request_id")
        received_us = function("rd_kafka_mock_request_timestamp")
        try:
            return [(api_key(one), broker_id(one), received_us(one)) for one in found[: count.value]]
        finally:
            function("rd_kafka_mock_request_destroy_array")(found, count)

    def destroy(self) -> None:
        """End the cluster and its threads; later calls do nothing."""
        self._finalizer()

    def _alive(self) -> int:
        if not self._finalizer.alive:
            raise EmbeddedBrokerError("The embedded broker is closed. Call start() first.")
        handle: int = self._cluster
        return handle


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Give the threads that start meanwhile a mask that blocks all signals: the kernel picks others for them.

    A mock cluster whose thread is interrupted in its wait ends for good, and may take the process along.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_descriptors(brokers: int) -> None:
    """Raise `EmbeddedBrokerError` where no more files can be opened: librdkafka would end the process."""
    try:
        with ExitStack() as opened:
            for _ in range(brokers + _DESCRIPTORS_OF_A_CLUSTER):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise EmbeddedBrokerError(
            f"An embedded broker of {brokers} broker(s) cannot start: {error.strerror}. Close what the test "
            "has left open, or raise the limit on open files (ulimit -n)."
        ) from error


def _silent_client() -> int:
    configuration = function("rd_kafka_conf_new")()
    # Tests take brokers down on purpose: this client's view of that is noise.
    function("rd_kafka_conf_set_log_cb")(configuration, None)
    reason = ctypes.create_string_buffer(512)
    client: int | None = function("rd_kafka_new")(PRODUCER, configuration, reason, len(reason))
    if client is None:
        function("rd_kafka_conf_destroy")(configuration)
        raise EmbeddedBrokerError(
            f"librdkafka could not start the embedded broker: {reason.value.decode(errors='replace')}"
        )
    return client


def _destroy(cluster: int, client: int, bootstrap: str, owner_pid: int) -> None:
    ADDRESSES.difference_update(bootstrap.split(","))
    # A forked child has the handles but not the threads: joining those would hang it.
    if os.getpid() == owner_pid:
        function("rd_kafka_mock_cluster_destroy")(cluster)
        function("rd_kafka_destroy")(client)
