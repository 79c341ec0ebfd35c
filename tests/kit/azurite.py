"""A real Azure Blob Storage server on this machine: Azurite, in memory or in a folder, on 127.0.0.1.

Responsible for one process and for containers in it. The account is the one that Microsoft documents for
every emulator; its key is no secret. Called on its caller's thread.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ehkafka.errors import EndpointError
from ehkafka.testing.kafka.process import BrokerProcess
from ehkafka.testing.ports import free_ports
from tests.kit.azurite_install import azurite_main, find_node

if TYPE_CHECKING:
    from types import TracebackType

ACCOUNT = "devstoreaccount1"
# Documented by Microsoft, the same for every emulator in the world.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
START_S = 30.0
STOP_S = 5.0


class Azurite:
    """Blob Storage without TLS and with the emulator's key; with `certificate`, TLS and Entra ID tokens.

    `certificate` are the paths of a certificate and its key as PEM. A token needs the audience
    `https://storage.azure.com`, nothing more is checked. Blobs are gone when it stops, unless it `keeps`
    them: a `start` after that finds them. Azurite writes down every 5 s, and when it is stopped, which blobs
    it has: if it is killed, it forgets those of the last seconds.
    """

    def __init__(self, *, certificate: tuple[Path, Path] | None = None, keeps: bool = False) -> None:
        self._certificate = certificate
        self._keeps = keeps
        self._process: BrokerProcess | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="ehkafka-azurite-")
        self.port = free_ports(1)[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs, and when it was stopped."""
        return None if self._process is None else self._process.exit_code

    @property
    def scheme(self) -> str:
        """`http`, or `https` with a certificate."""
        return "http" if self._certificate is None else "https"

    def account_url(self, address: str | None = None) -> str:
        """Return the account's URL, at another address if something stands before it."""
        return f"{self.scheme}://{address or self.address}/{ACCOUNT}"

    def connection_string(self, address: str | None = None) -> str:
        """Return what the portal would show as connection string."""
        return (
            f"DefaultEndpointsProtocol={self.scheme};AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};"
            f"BlobEndpoint={self.account_url(address)};"
        )

    def service_client(self) -> Any:
        """Return the SDK's client of the whole account, for a test's own looks. To be closed."""
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415 - only where it is used

        return BlobServiceClient.from_connection_string(self.connection_string(), retry_total=0)

    def create_container(self, name: str) -> str:
        """Create a container and return its URL."""
        with self.service_client() as service:
            service.create_container(name)
        return f"{self.account_url()}/{name}"

    def start(self) -> Self:
        """Start it, again after a `stop`, on the same port. Raises `EhkafkaError`."""
        directory = Path(self._directory.name)
        log = directory / "azurite.log"
        self._process = BrokerProcess(self._command(), log=log, directory=directory)
        deadline_s = time.monotonic() + START_S
        while not self._answers():
            if self._process.exit_code is not None or time.monotonic() > deadline_s:
                text = log.read_text(errors="replace")[-1000:]
                self.stop()
                raise EndpointError(f"Azurite did not come up on {self.address}: {text}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """End it; a second call does nothing."""
        if self._process is not None:
            self._process.terminate(STOP_S)
            self._process = None

    def close(self) -> None:
        """End it for good and remove its folder."""
        self.stop()
        self._directory.cleanup()

    def _command(self) -> list[str]:
        options = ["--location", self._directory.name] if self._keeps else ["--inMemoryPersistence"]
        options += ["--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        if self._certificate is not None:
            certificate, key = self._certificate
            options += ["--oauth", "basic", "--cert", str(certificate), "--key", str(key)]
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        return [*find_node().node, str(azurite_main()), *where, *options]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return False
