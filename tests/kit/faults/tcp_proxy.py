"""A TCP proxy that makes a network bad: slow, narrow, torn to pieces, silent, short-lived, refusing.

Responsible for bytes between clients and one server, both on 127.0.0.1; it knows no Kafka, so TLS passes
through. The server must advertise the proxy's address, or clients go around it after their first answer.
All sockets belong to one daemon thread with an event loop; the public methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from ehkafka.errors import ConfigurationError, EndpointError
from tests.kit.faults.network import CALM
from tests.kit.faults.tcp_link import Link, Streams

if TYPE_CHECKING:
    from types import TracebackType

    from tests.kit.faults.network import Network

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 10.0


class TcpProxy:
    """Listens on a free port of 127.0.0.1 and forwards to `upstream` (`host:port`).

    ```python
    with TcpProxy() as proxy, KafkaBroker(listeners={"far": Listener(advertised_port=proxy.port)}) as broker:
        proxy.forward_to(broker.bootstrap_for("far"))
        proxy.network = Network(latency_s=(0.0, 0.5), slice_bytes=(1, 16))
        consume(proxy.address)
        proxy.heal()
    ```
    """

    def __init__(self, upstream: str | None = None, *, seed: int = 1) -> None:
        self._upstream = upstream
        self._network = CALM
        # Written by the proxy's thread, read by any: how many connections there were, by what became of them.
        self.accepted = 0
        self.refused = 0
        self.closed_idle = 0
        self.closed_by_age = 0
        self.random = random.Random(seed)
        self._links: set[Link] = set()
        self._port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._stop = asyncio.Event()
        self._light = asyncio.Event()  # set while there is no black hole

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """Where it listens."""
        if not self._port:
            raise ConfigurationError("The proxy has no port yet: call start() or use it in a `with`.")
        return self._port

    @property
    def address(self) -> str:
        """`host:port`, as `bootstrap.servers` takes it."""
        return f"{HOST}:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections pass through it now."""
        return len(self._links)

    @property
    def network(self) -> Network:
        """How bad the network is now. What is set counts for open connections too, `life_s` apart."""
        return self._network

    @network.setter
    def network(self, network: Network) -> None:
        self._network = network
        self._in_loop(self._light.clear if network.black_hole else self._light.set)

    def heal(self) -> None:
        """Make the network good again; connections that a fault has closed stay closed."""
        self.network = CALM

    def cut(self) -> None:
        """Close every connection that is open now."""
        self._in_loop(self._cut)

    def forward_to(self, upstream: str) -> None:
        """Set where new connections go, for a server that had to know the proxy's port first."""
        self._upstream = upstream

    def start(self) -> Self:
        """Listen; once."""
        if self._thread is not None:
            raise ConfigurationError("The proxy was started before; make a new one.")
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="tcp-proxy", daemon=True
        )
        self._thread.start()
        if not self._is_up.wait(START_TIMEOUT_S):
            raise EndpointError(f"The proxy did not come up within {START_TIMEOUT_S:g} s.")
        return self

    def stop(self) -> None:
        """Close everything. A second call does nothing."""
        if self._thread is not None:
            self._in_loop(self._stop.set)
            self._thread.join()

    # What follows runs on the proxy's thread.

    def link(self, client: Streams, server: Streams) -> Link:
        """Make the object for one connection; a proxy that knows a protocol returns its own kind."""
        return Link(self, client, server)

    async def passage(self) -> None:
        """Wait while there is a black hole."""
        await self._light.wait()

    def _in_loop(self, call: object) -> None:
        """Have the proxy's thread do something, if it still runs."""
        assert callable(call)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing is left to tell
                self._loop.call_soon_threadsafe(call)

    def _cut(self) -> None:
        for link in list(self._links):
            link.close()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._network.black_hole:
            self._light.set()
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                await self._serve(Streams(reader, writer))
            except asyncio.CancelledError:
                # By `stop` alone; asyncio's own callback would log it as an error.
                writer.transport.abort()
            finally:
                tasks.discard(task)

        server = await asyncio.start_server(serve, HOST, 0)
        self._port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        await self._stop.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # One more turn, in which aborted transports close their sockets.
        await asyncio.sleep(0)

    async def _serve(self, client: Streams) -> None:
        if self._network.refuse or self._upstream is None:
            self.refused += 1
            client.close()
            return
        self.accepted += 1
        host, _, port = self._upstream.rpartition(":")
        try:
            await self.passage()
            server = Streams(*await asyncio.open_connection(host, int(port)))
        except OSError:  # the server is away: the client learns it as it would without a proxy
            client.close()
            return
        except asyncio.CancelledError:
            client.close()
            raise
        link = self.link(client, server)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            link.close()
