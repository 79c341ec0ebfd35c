"""A real Apache Kafka broker of one node (KRaft) for tests, demos and benchmarks.

Responsible for the broker's life: files in a private directory, ports, start, outage, end. Needs only
Python on the machine: `java` finds a runtime, `jars` the class path. Everything listens on 127.0.0.1.
Never part of a production path. One thread owns a `KafkaBroker`; the broker itself is another process
and dies with its owner.
"""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.broker_process import BrokerProcess, java_environment
from ehkafka.testing.jars import kafka_jars
from ehkafka.testing.java import find_java
from ehkafka.testing.kafka_admin import KafkaAdmin
from ehkafka.testing.kafka_properties import (
    CONTROLLER,
    HOST,
    LOG4J2_XML,
    PLAINTEXT,
    Listener,
    server_properties,
)
from ehkafka.testing.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

Profile = Literal["test", "bench"]

JAVA_FLAGS: Final[Mapping[Profile, tuple[str, ...]]] = {
    # Up in 3 s and about 300 MB resident; the optimising compiler would not pay within one test.
    "test": ("-Xmx384m", "-XX:TieredStopAtLevel=1"),
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
        self._directory: Path | None = None
        self._process: BrokerProcess | None = None
        self._ports: dict[str, int] = {}
        self._command: list[str] = []
        self._expected_cluster_id = ""

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
        if self._directory is None:
            raise ConfigurationError("The broker has no directory: it is not started, or was stopped")
        return self._directory

    def start(self) -> Self:
        """Start a broker without data and return it when it answers."""
        if self._directory is not None:
            raise ConfigurationError(
                "The broker was started already; restart() keeps its data, stop() ends it"
            )
        command = [str(find_java()), *self._java_flags, "-cp", ":".join(map(str, kafka_jars()))]
        self._directory = Path(tempfile.mkdtemp(prefix="ehkafka-broker-"))  # mode 0700
        self._command = [*command, f"-Dlog4j2.configurationFile=file:{self._directory / 'log4j2.xml'}"]
        try:
            self._start_on_free_ports()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the broker and remove its data. Does nothing when it is not there."""
        if self._process is not None:
            self._process.terminate(STOP_TIMEOUT_S)
            self._forget_process()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None
        self._ports = {}

    def kill(self) -> None:
        """End the broker as a crash does (SIGKILL). Data and ports stay for `restart()`."""
        self._running().kill()
        self._forget_process()

    def restart(self) -> None:
        """Come back on the same ports with the same data, stopping gracefully first if still running."""
        if self._process is not None:
            self._process.terminate(STOP_TIMEOUT_S)
            self._forget_process()
        _ = self.directory  # a clear error when there is nothing to come back to
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
        change = ["--delete-config", "consumer_byte_rate"]
        if fetch_bytes_per_s is not None:
            change = ["--add-config", f"consumer_byte_rate={fetch_bytes_per_s}"]
        whom = ["--entity-type", "clients", "--entity-name", client_id]
        command = ["kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, "--alter"]
        _run(
            [*self._command, *command, *whom, *change],
            self.directory,
            self._start_timeout_s,
            what="Setting a quota",
        )

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the end of the broker's log."""
        try:
            text = (self.directory / "kafka.log").read_text(errors="replace")
        except FileNotFoundError:
            return "(no log yet)"
        return "\n".join(text.splitlines()[-lines:])

    def _running(self) -> BrokerProcess:
        if self._process is None:
            raise ConfigurationError("The broker is not running; call start() or restart() first")
        return self._process

    def _start_on_free_ports(self) -> None:
        """Try again with other ports when another process takes one between our look and the start."""
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            self._choose_ports()
            self._write_files()
            if not (self.directory / "data").exists():
                self._format_storage()
            if self._come_up(ports_may_change=attempts_left > 0):
                return

    def _choose_ports(self) -> None:
        names = [*self.listeners, CONTROLLER]
        chosen = dict(zip(names, free_ports(len(names)), strict=True))
        fixed = {name: listener.port for name, listener in self.listeners.items() if listener.port}
        self._ports = chosen | fixed

    def _write_files(self) -> None:
        directory = self.directory
        keystores = {}
        for name, listener in self.listeners.items():
            if listener.identity is not None:
                keystores[name] = directory / f"{name}.pem"
                _write_secret(keystores[name], listener.identity.key_pem + listener.identity.certificate_pem)
        properties = server_properties(
            data_directory=directory / "data",
            listeners=self.listeners,
            ports=self._ports,
            keystores=keystores,
            overrides=self._properties,
        )
        _write_secret(directory / "server.properties", properties.encode("ascii"))
        _write_secret(directory / "log4j2.xml", LOG4J2_XML.encode("ascii"))

    def _format_storage(self) -> None:
        # A leading "-" would be taken for an option: the first bits are fixed.
        identity = b"\0" + uuid.uuid4().bytes[1:]
        self._expected_cluster_id = base64.urlsafe_b64encode(identity).decode("ascii").rstrip("=")
        arguments = ["format", "-t", self._expected_cluster_id, "-c", "server.properties"]
        _run(
            [*self._command, "kafka.tools.StorageTool", *arguments],
            self.directory,
            self._start_timeout_s,
            what="Formatting the broker's storage",
        )

    def _come_up(self, *, ports_may_change: bool) -> bool:
        """Start the process and wait until it answers; False when somebody else took a port."""
        log = self.directory / "kafka.log"
        log.touch(mode=0o600)
        log_start = log.stat().st_size
        command = [*self._command, "kafka.Kafka", "server.properties"]
        self._process = BrokerProcess(command, log=log, directory=self.directory)
        deadline_s = time.monotonic() + self._start_timeout_s
        while not self._is_up():
            exit_code = self._process.exit_code
            if exit_code is not None:
                self._process.kill()  # it has ended; this reaps it
                self._forget_process()
                if ports_may_change and b"Address already in use" in log.read_bytes()[log_start:]:
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
        return self._cluster_id() == self._expected_cluster_id

    def _start_error(self, what: str) -> EndpointError:
        return EndpointError(f"The Kafka broker {what}. The end of its log:\n{self.log_tail()}")


def _run(command: Sequence[str], directory: Path, timeout_s: float, *, what: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - a command of our own
            command,
            cwd=directory,
            env=java_environment(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EndpointError(f"{what} took longer than {timeout_s:g} s") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise EndpointError(f"{what} failed with {done.returncode}:\n{output}")


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that is never, not even for a moment, readable by others."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
