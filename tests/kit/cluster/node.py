"""One node of a cluster: broker and controller in one Java process, with its folder and its faults.

Used by the thread that owns the cluster. What is done to a node's network, the cluster does.
"""

from __future__ import annotations

import shutil
import time
from functools import cache
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.kafka.folder import KafkaFolder
from ehkafka.testing.kafka.process import BrokerProcess
from ehkafka.testing.kafka.properties import CONTROLLER, PLAINTEXT, Listener
from tests.kit.cluster.requests import ClusterState, cluster_state
from tests.kit.cluster.stepped_clock import SteppedClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# Two cores that many share may need a minute for what takes 3 s.
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 15.0
STEP_BACK_S_MAX: Final = 5.0
ANSWER_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.05
LOG_TAIL_LINES: Final = 25
CHECKPOINT: Final = "bootstrap.checkpoint"


@cache
def formatted(java: tuple[str, ...]) -> tuple[str, bytes]:
    """Return a cluster's id, and what Kafka writes into each node's storage before its first start.

    It says which features the cluster has, and is the same for all clusters; each Java takes a second.
    """
    folder = KafkaFolder(java, timeout_s=START_TIMEOUT_S)
    try:
        folder.write({PLAINTEXT: Listener()}, {PLAINTEXT: 1, CONTROLLER: 2}, {})
        return folder.cluster_id, (folder.path / "data" / CHECKPOINT).read_bytes()
    finally:
        folder.remove()


class PortTakenError(EndpointError):
    """Another process took a port between our look and the start."""


class Node:
    """Made and started by its cluster. `address` is its listener without a proxy."""

    def __init__(
        self,
        number: int,
        address: str,
        java: Sequence[str],
        properties: Mapping[str, str | int],
        ended: Callable[[], None],
        stepped_from: Sequence[Path] | None,
    ) -> None:
        self.number = number
        self.address = address
        self.is_suspended = False
        self._folder = KafkaFolder(java, timeout_s=START_TIMEOUT_S)
        self._clock = SteppedClock(self._folder.path, stepped_from) if stepped_from else None
        self._properties = dict(properties)
        self._ended = ended
        self._process: BrokerProcess | None = None

    def __repr__(self) -> str:
        return f"node {self.number}"

    @property
    def pid(self) -> int | None:
        """The process id, `None` when it was killed."""
        return self._process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether the process lives; a suspended one does."""
        return self._process is not None and self._process.exit_code is None

    @property
    def answers(self) -> bool:
        """Whether it can be asked: it runs and is not suspended."""
        return self.is_running and not self.is_suspended

    def kill(self) -> None:
        """End it as a crash does (SIGKILL). Data and ports stay for `restart()`."""
        self._running().kill()
        self._forget_process()

    def restart(self, *, wait: bool = True) -> None:
        """Come back with the same data and ports, stopping gracefully first if it still runs.

        Without a majority of nodes none comes up: start them with `wait=False`, and then call
        `wait_until_in_sync`.
        """
        if self._process is not None:
            self._terminate()
        self.start()
        if wait:
            self.wait_until_up(START_TIMEOUT_S)

    def suspend(self) -> None:
        """Freeze it (SIGSTOP): connections stay open and nothing answers."""
        self._running().suspend()
        self.is_suspended = True

    def resume(self) -> None:
        """Undo `suspend()`."""
        self._running().resume()
        self.is_suspended = False

    def step_clock(self, by_s: float) -> None:
        """Move its time of day, and no other process's, by so much. It stays so when the node restarts.

        A step back by more than 5 s is made between two processes of the node: its quorum's timers would
        stand still for as long, and a cluster with such nodes finds no new controller until then.
        """
        if self._clock is None:
            raise ConfigurationError("The clocks cannot be stepped: make the cluster with clocks=True")
        is_between = by_s < -STEP_BACK_S_MAX and self.is_running
        if is_between:
            self._terminate()
        self._clock.step(by_s)
        if is_between:
            self.restart()

    def state(self) -> ClusterState:
        """Return what this node knows of the cluster. Raises `OSError` when it does not answer."""
        return cluster_state(self.address, ANSWER_TIMEOUT_S)

    def log_tail(self, lines: int = LOG_TAIL_LINES) -> str:
        """Return the end of its log."""
        return self._folder.log_tail(lines)

    def copy_topics(self, target: Path) -> None:
        """Copy its segments of all partitions, for `kafka-dump-log`; it may run meanwhile."""
        for segment in (self._folder.path / "data").glob("*-*/*.log"):
            (target / segment.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(segment, target / segment.parent.name / segment.name)

    # What follows is for its cluster.

    def write(self, cluster_id: str, checkpoint: bytes) -> None:
        """Write the files of the first start, the formatted storage among them."""
        data = self._folder.path / "data"
        data.mkdir(mode=0o700)
        (data / CHECKPOINT).write_bytes(checkpoint)
        identity = f"version=1\ncluster.id={cluster_id}\nnode.id={self.number}\n"
        (data / "meta.properties").write_text(identity)
        self._folder.write({}, {CONTROLLER: 0}, self._properties)

    def start(self) -> None:
        """Start the process; `wait_until_up` waits for it."""
        folder = self._folder
        folder.log.touch(mode=0o600)
        command = folder.command("kafka.Kafka", "server.properties")
        self._process = BrokerProcess(command, log=folder.log, directory=folder.path)

    def wait_until_up(self, timeout_s: float) -> None:
        """Wait until it is a member of the cluster and answers. Raises `EndpointError`."""
        deadline_s = time.monotonic() + timeout_s
        while not self._is_up():
            if not self.is_running:
                if b"Address already in use" in self._folder.log.read_bytes():
                    raise PortTakenError(f"A port of {self} is taken")
                raise EndpointError(f"The process of {self} ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline_s:
                raise EndpointError(f"{self} did not come up within {timeout_s:g} s:\n{self.log_tail()}")
            time.sleep(POLL_S)

    def remove(self) -> None:
        """End it and remove its data."""
        if self._process is not None:
            self._process.kill()  # a graceful end would keep data that goes now
            self._forget_process()
        self._folder.remove()

    def _is_up(self) -> bool:
        try:
            return self.number in self.state().nodes
        except OSError:
            return False

    def _running(self) -> BrokerProcess:
        if self._process is None:
            raise ConfigurationError(f"{self} is not running; call restart() first")
        return self._process

    def _terminate(self) -> None:
        self._running().terminate(STOP_TIMEOUT_S)
        self._forget_process()

    def _forget_process(self) -> None:
        self._process = None
        self.is_suspended = False
        self._ended()
