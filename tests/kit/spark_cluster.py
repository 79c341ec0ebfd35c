"""A Spark standalone cluster on this machine: a master and workers as processes of their own, on 127.0.0.1.

For tests of what only a cluster shows: code that is shipped, executors that are not the driver, secrets that
have to be on every machine. Made of the `pyspark` package alone. Starts and ends processes by their own pids;
called by tests on one thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ehkafka.errors import EndpointError
from ehkafka.spark.java_home import find_java_home
from ehkafka.testing.kafka.process import BrokerProcess, java_environment
from ehkafka.testing.ports import free_ports
from tests.kit.spark_home import QUICK_JVM, make_spark_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

HOST = "127.0.0.1"
START_S = 120.0
STOP_S = 10.0
CHECK_S = 0.05


class SparkCluster:
    """A master and `workers` with one core each, in a context manager.

    The workers come up while the first program's driver does: what it runs waits for all of them. `python`
    runs the driver and the executors. `environment` is added to that of the workers, and so to their
    executors': as a cluster's operator gives secrets to its machines.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        python: Path = Path(sys.executable),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ehkafka-spark-")
        self._home = make_spark_home(Path(self._directory.name))
        self._count = workers
        self._environment = {
            "JAVA_HOME": str(find_java_home()),
            "SPARK_HOME": str(self._home),
            "SPARK_CONF_DIR": self._directory.name,
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": self._directory.name,
            "SPARK_DAEMON_MEMORY": "192m",
            "JDK_JAVA_OPTIONS": QUICK_JVM,
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
        }
        self._of_workers = {**self._environment, **(environment or {})}
        self._processes: list[BrokerProcess] = []
        self.port = free_ports(1)[0]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """What `--master` is given."""
        return f"spark://{HOST}:{self.port}"

    def submit(
        self,
        program: Path,
        arguments: Sequence[str] = (),
        *,
        py_files: Sequence[Path] = (),
        configuration: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> str:
        """Run a program by `spark-submit` to its end; return what it printed. Raises `EndpointError`.

        `environment` is the driver's alone.
        """
        settings = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.sql.shuffle.partitions": "2",
            # No task runs before each worker has its executor.
            "spark.cores.max": str(self._count),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_S:.0f}s",
            **(configuration or {}),
        }
        command = [str(self._home / "bin" / "spark-submit"), "--master", self.url]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        if py_files:
            command += ["--py-files", ",".join(map(str, py_files))]
        try:
            done = subprocess.run(
                [*command, str(program), *arguments],
                env={**_without_python_path(), **self._environment, **(environment or {})},
                cwd=self._directory.name,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EndpointError(f"spark-submit took more than {timeout_s:.0f} s.\n{self._logs()}") from None
        if done.returncode != 0:
            shown = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("\tat "))
            raise EndpointError(
                f"spark-submit ended with {done.returncode}\n{done.stdout[-2000:]}\n{shown[-8000:]}"
            )
        return done.stdout

    def stop(self) -> None:
        """End all processes and remove what they wrote; a second call does nothing."""
        for process in self._processes:
            if process.exit_code is None:
                os.kill(process.pid, signal.SIGTERM)  # to all of them before one is waited for
        while self._processes:
            self._processes.pop().terminate(STOP_S)
        self._directory.cleanup()

    def _start(self) -> None:
        address = ["--host", HOST, "--port", str(self.port), "--webui-port", "0"]
        master = self._run("master.Master", address, self._environment, "master")
        # A worker or driver that finds no master looks again after ten seconds.
        self._wait_for(master, "Starting Spark master")
        for number in range(self._count):
            work = Path(self._directory.name) / f"worker-{number}"
            shape = ["--host", HOST, "--cores", "1", "--memory", "1g", "--work-dir", str(work)]
            arguments = [*shape, "--webui-port", "0", self.url]
            self._run("worker.Worker", arguments, self._of_workers, f"worker-{number}")

    def _run(self, main: str, arguments: Sequence[str], environment: Mapping[str, str], name: str) -> Path:
        directory = Path(self._directory.name)
        log = directory / f"{name}.log"
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *arguments]
        process = BrokerProcess(command, log=log, directory=directory, environment=environment)
        self._processes.append(process)
        return log

    def _wait_for(self, log: Path, words: str) -> None:
        deadline_s = time.monotonic() + START_S
        while words not in log.read_text(errors="replace"):
            ended = [each.exit_code for each in self._processes if each.exit_code is not None]
            if ended or time.monotonic() > deadline_s:
                raise EndpointError(f"The Spark cluster did not come up on {self.url}:\n{self._logs()}")
            time.sleep(CHECK_S)

    def _logs(self) -> str:
        """Return the end of what each process has said."""
        paths = sorted(Path(self._directory.name).glob("*.log"))
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in paths)


def _without_python_path() -> dict[str, str]:
    """Return this process's environment, so that nothing but what is shipped can be imported."""
    return {
        name: value
        for name, value in java_environment().items()
        if name not in {"PYTHONPATH", "SPARK_REMOTE"}
    }
