"""One Java process of a Kafka broker, from its start to its end.

Responsible for the process alone: it is started in a session of its own (Ctrl-C in a terminal reaches
the tests, not the broker), signalled by its own pid only, always reaped, and killed when the owner
dies. Knows no Kafka. Called by `KafkaBroker` on its caller's thread.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from ehkafka.testing.kafka import orphan_watch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Options that a user has set for other Java programs would change the broker's heap, agents or flags.
FOREIGN_JAVA_OPTIONS: Final = ("CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


class BrokerProcess:
    """A running Java process. `directory` is removed when its owner dies without stopping it.

    `environment` is added to that of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with log.open("ab") as output:
            self._java = subprocess.Popen(  # noqa: S603 - a command of our own
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**java_environment(), **(environment or {})},
                start_new_session=True,
            )
        self._suspended = False
        self._watch = self._start_watch(directory)

    @property
    def pid(self) -> int:
        """The process id of the Java process."""
        return self._java.pid

    @property
    def exit_code(self) -> int | None:
        """How the process ended; `None` while it runs."""
        return self._java.poll()

    def terminate(self, timeout_s: float) -> None:
        """End by SIGTERM, and by SIGKILL when that takes longer than `timeout_s`."""
        self.resume()
        self._java.terminate()
        try:
            self._java.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._java.kill()
        self._reap()

    def kill(self) -> None:
        """End by SIGKILL, as a crash or a power cut of the machine does."""
        self._java.kill()
        self._reap()

    def suspend(self) -> None:
        """Stop all threads (SIGSTOP): connections stay open and nothing answers."""
        self._java.send_signal(signal.SIGSTOP)
        self._suspended = True

    def resume(self) -> None:
        """Undo `suspend`."""
        if self._suspended:
            self._java.send_signal(signal.SIGCONT)
            self._suspended = False

    def _reap(self) -> None:
        self._java.wait()
        if self._watch is not None:
            self._watch.wait()  # it ends by itself as soon as the broker has

    def _start_watch(self, directory: Path) -> subprocess.Popen[bytes] | None:
        if not hasattr(os, "pidfd_open"):
            return None  # not Linux: a killed owner leaves its broker behind
        arguments = [str(os.getpid()), str(self._java.pid), str(directory)]
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", orphan_watch.__file__, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def java_environment() -> dict[str, str]:
    """Return this process's environment without options meant for other Java programs."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN_JAVA_OPTIONS}
