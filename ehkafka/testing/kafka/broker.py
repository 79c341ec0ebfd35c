"""A real Apache Kafka broker of one node (KRaft) for tests, demos and benchmarks.

Responsible for the broker's life: files in a private directory, ports, start, outage, end. Needs only
Python on the machine: `java` finds a runtime, `jars` the class path. Everything listens on 127.0.0.1.
Never part of a production path. One thread owns a `KafkaBroker`; the broker itself is another process
and dies with its owner.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final, Literal, Self

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.kafka.admin import KafkaAdmin
from ehkafka.testing.kafka.folder import KafkaFolder
from ehkafka.testing.kafka.jars import kafka_jars
from ehkafka.testing.kafka.java import find_java
from ehkafka.testing.kafka.process import BrokerProcess
from ehkafka.testing.kafka.properties import CONTROLLER, HOST, PLAINTEXT, Listener
from ehkafka.testing.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

Profile = Literal["test", "bench"]

JAVA_FLAGS: Final[Mapping[Profile, tuple[str, ...]]] = {
    # Up in 3 s and about 300 MB resident; within one test neither the optimising compiler pays nor a
    # collector with threads of its own.
    "test": ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # A heap that never grows during a measurement, and the whole just-in-time compiler.
    "bench": ("-Xms1g", "-Xmx1g"),
}
START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.05
LOG_TAIL_LINES: Final = 25
PORT_ATTEMPTS: Final = 3


class KafkaBroker(KafkaAdmin):
    """A broker in a context manager.

    ```python
    with KafkaBroker(listeners={"sasl": Listener(users={"$ConnectionString": secret})}) as broker:
        broker.create_topic("readings", 4)
        consume(broker.bootstrap)  # plaintext, always there
        consume(broker.bootstrap_for("sasl"))
    ```

    `properties` go into server.properties and win over everything else; `port` fixes the plaintext
    port. Raises `MissingExtraError` when Java or jgo is missing, `EndpointError` when the JARs cannot
    be downloaded or the broker does not come up, with the end of its log.
    """

    def __init__(
        self,
        *,
        listeners: Mapping[str, Listener] | None = None,
        properties: Mapping[str, str | int] | None = None,
        profile: Profile = "test",
        port: int = 0,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        named = dict(listeners or {})
        for name in named:
            if name in (PLAINTEXT, CONTROLLER) or not (name.isidentifier() and name.islower()):
                message = f"{name!r} cannot name a listener: use a lower-case word other than "
                raise ConfigurationError(f"{message}{PLAINTEXT!r} and {CONTROLLER!r}")
        self.listeners = {PLAINTEXT: Listener(port=port), **named}
        self._properties = dict(properties or {})
        self._java_flags = JAVA_FLAGS[profile]
        self._start_timeout_s = start_timeout_s
        self._folder: KafkaFolder | None = None
        self._process: BrokerProcess | None = None
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`host:port` of the plaintext listener."""
        return self.bootstrap_for(PLAINTEXT)

    def bootstrap_for(self, listener: str) -> str:
        """`host:port` of a listener by its name."""
        if not self._ports:
            raise ConfigurationError("The broker has no address yet: call start() or use it in a `with`")
        if listener not in self.listeners:
            raise ConfigurationError(f"No listener {listener!r}; there are {', '.join(self.listeners)}")
        return f"{HOST}:{self._ports[listener]}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker, `None` when there is none."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the process lives; a suspended one does."""
        return self._process is not None and self._process.exit_code is None

    @property
    def directory(self) -> Path:
        """Where configuration, data and log live until `stop()`; readable by its owner only."""
        return self._there().path

    def start(self) -> Self:
        """Start a broker without data and return it when it answers."""
        if self._folder is not None:
            raise ConfigurationError(
                "The broker was started already; restart() keeps its data, stop() ends it"
            )
        java = [str(find_java()), *self._java_flags, "-cp", ":".join(map(str, kafka_jars()))]
        self._folder = KafkaFolder(java, timeout_s=self._start_timeout_s)
        try:
            self._start_on_free_ports()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the broker at once and remove its data. Does nothing when it is not there."""
        if self._process is not None:
            self.kill()  # a graceful end takes seconds, for data that goes now
        if self._folder is not None:
            self._folder.remove()
        self._folder = None
        self._ports = {}

    def kill(self) -> None:
        """End the broker as a crash does (SIGKILL). Data and ports stay for `restart()`."""
        self._running().kill()
        self._forget_process()

    def restart(self) -> None:
        """Come back on the same ports with the same data, stopping gracefully first if still running.

        With what `listeners` says by now, so that users and keys can be exchanged.
        """
        if self._process is not None:
            self._process.terminate(STOP_TIMEOUT_S)
            self._forget_process()
        self._there().write(self.listeners, self._ports, self._properties)
        self._come_up(ports_may_change=False)

    def suspend(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open and nothing answers."""
        self._running().suspend()

    def resume(self) -> None:
        """Undo `suspend()`."""
        self._running().resume()

    def set_quota(self, client_id: str, *, fetch_bytes_per_s: int | None) -> None:
        """Let all fetches of a `client.id` together have so many bytes per second; `None` ends that.

        Takes about two seconds: only Java's own tool knows client quotas. Beyond the quota the broker
        answers empty, with the time for which it then reads nothing from that connection; how it averages
        is in the properties `quota.window.num` (11) and `quota.window.size.seconds` (1).
        """
        self._set_rate(client_id, "consumer_byte_rate", fetch_bytes_per_s)

    def set_produce_quota(self, client_id: str, *, bytes_per_s: int | None) -> None:
        """Let all that a `client.id` produces have so many bytes per second; `None` ends that.

        The broker writes messages, then reads nothing more from that connection for a while.
        """
        self._set_rate(client_id, "producer_byte_rate", bytes_per_s)

    def _set_rate(self, client_id: str, name: str, bytes_per_s: int | None) -> None:
        change = ["--delete-config", name]
        if bytes_per_s is not None:
            change = ["--add-config", f"{name}={bytes_per_s}"]
        whom = ["--entity-type", "clients", "--entity-name", client_id]
        where = ["--bootstrap-server", self.bootstrap, "--alter"]
        self._there().run("kafka.admin.ConfigCommand", *where, *whom, *change, what="Setting a quota")

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the end of the broker's log."""
        return self._there().log_tail(lines)

    def _there(self) -> KafkaFolder:
        if self._folder is None:
            raise ConfigurationError("The broker has no directory: it is not started, or was stopped")
        return self._folder

    def _running(self) -> BrokerProcess:
        if self._process is None:
            raise ConfigurationError("The broker is not running; call start() or restart() first")
        return self._process

    def _start_on_free_ports(self) -> None:
        """Try again with other ports when another process takes one between our look and the start."""
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self._choose_ports()
            self._there().write(self.listeners, self._ports, self._properties)
            if self._come_up(ports_may_change=attempts_left > 0):
                return

    def _choose_ports(self) -> None:
        names = [*self.listeners, CONTROLLER]
        chosen = dict(zip(names, free_ports(len(names)), strict=True))
        fixed = {name: listener.port for name, listener in self.listeners.items() if listener.port}
        self._ports = chosen | fixed

    def _come_up(self, *, ports_may_change: bool) -> bool:
        """Start the process and wait until it answers; False when another process took a port."""
        folder = self._there()
        folder.log.touch(mode=0o600)
        log_start = folder.log.stat().st_size
        command = folder.command("kafka.Kafka", "server.properties")
        self._process = BrokerProcess(command, log=folder.log, directory=folder.path)
        deadline_s = time.monotonic() + self._start_timeout_s
        while not self._is_up():
            exit_code = self._process.exit_code
            if exit_code is not None:
                self._process.kill()  # it has ended; this reaps it
                self._forget_process()
                if ports_may_change and b"Address already in use" in folder.log.read_bytes()[log_start:]:
                    return False
                raise self._start_error(f"ended with exit code {exit_code} while starting")
            if time.monotonic() > deadline_s:
                raise self._start_error(f"did not answer within {self._start_timeout_s:g} s")
            time.sleep(POLL_S)
        return True

    def _forget_process(self) -> None:
        # An AdminClient that saw a coordinator go waits for it until its requests time out, even when
        # the broker is back on the same port: each process gets a new client.
        self._process = self._admin_client = None

    def _is_up(self) -> bool:
        """Ask by a bare connection first: librdkafka backs off after each refused one."""
        try:
            socket.create_connection((HOST, self._ports[PLAINTEXT]), timeout=1.0).close()
        except OSError:
            return False
        return self._cluster_id() == self._there().cluster_id

    def _start_error(self, what: str) -> EndpointError:
        return EndpointError(f"The Kafka broker {what}. The end of its log:\n{self.log_tail()}")
