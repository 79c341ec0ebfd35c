"""The private folder of a `KafkaBroker`: its configuration, its keys, its formatted storage, its log.

Nothing in it is ever readable by others. Used by the thread that owns the broker.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.errors import EndpointError
from ehkafka.testing.kafka.process import java_environment
from ehkafka.testing.kafka.properties import LOG4J2_XML, Listener, server_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class KafkaFolder:
    """A folder made with the object. `java` is how Java is started, with the class path."""

    def __init__(self, java: Sequence[str], *, timeout_s: float) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ehkafka-broker-"))  # mode 0700
        self._java = [*java, f"-Dlog4j2.configurationFile=file:{self.path / 'log4j2.xml'}"]
        self._timeout_s = timeout_s
        # What the broker says once the storage is its own.
        self.cluster_id = ""

    @property
    def log(self) -> Path:
        """Where the broker logs."""
        return self.path / "kafka.log"

    def command(self, main: str, *arguments: str) -> list[str]:
        """Return how one of Kafka's programs is started, in this folder."""
        return [*self._java, main, *arguments]

    def write(
        self,
        listeners: Mapping[str, Listener],
        ports: Mapping[str, int],
        overrides: Mapping[str, str | int],
    ) -> None:
        """Write all that a start reads."""
        keystores = {}
        for name, listener in listeners.items():
            if listener.identity is not None:
                keystores[name] = self.path / f"{name}.pem"
                _write_secret(keystores[name], listener.identity.key_pem + listener.identity.certificate_pem)
        properties = server_properties(
            data_directory=self.path / "data",
            listeners=listeners,
            ports=ports,
            keystores=keystores,
            overrides=overrides,
        )
        _write_secret(self.path / "server.properties", properties.encode("ascii"))
        _write_secret(self.path / "log4j2.xml", LOG4J2_XML.encode("ascii"))
        if not (self.path / "data").exists():
            self._format_storage()

    def run(self, main: str, *arguments: str, what: str) -> None:
        """Run one of Kafka's programs to its end. Raises `EndpointError` with what it wrote."""
        try:
            done = subprocess.run(  # noqa: S603 - a command of our own
                self.command(main, *arguments),
                cwd=self.path,
                env=java_environment(),
                capture_output=True,
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EndpointError(f"{what} took longer than {self._timeout_s:g} s") from error
        if done.returncode != 0:
            output = (done.stdout + done.stderr).decode(errors="replace").strip()
            raise EndpointError(f"{what} failed with {done.returncode}:\n{output}")

    def log_tail(self, lines: int) -> str:
        """Return the end of the broker's log."""
        try:
            text = self.log.read_text(errors="replace")
        except FileNotFoundError:
            return "(no log yet)"
        return "\n".join(text.splitlines()[-lines:])

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _format_storage(self) -> None:
        # A leading "-" would be taken for an option: the first bits are fixed.
        identity = b"\0" + uuid.uuid4().bytes[1:]
        self.cluster_id = base64.urlsafe_b64encode(identity).decode("ascii").rstrip("=")
        self.run(
            "kafka.tools.StorageTool",
            *("format", "-t", self.cluster_id, "-c", "server.properties"),
            what="Formatting the broker's storage",
        )


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that is never, not even for a moment, readable by others."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
