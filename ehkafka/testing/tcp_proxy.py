"""A TCP proxy that makes a network bad: slow, narrow, torn to pieces, silent, short-lived, refusing.

Responsible for bytes between clients and one server, both on 127.0.0.1; it knows no Kafka, so TLS passes
through. The server must advertise the proxy's address, or clients go around it after their first answer.
All sockets belong to one daemon thread with an event loop; the public methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ehkafka.errors import ConfigurationError, EndpointError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from types import TracebackType

HOST: Final = "127.0.0.1"
START_TIMEOUT_S: Final = 10.0
READ_BYTES_MAX: Final = 65_536
# Waiting for release in one direction of a connection; beyond it the sender is held up, as by a full pipe.
PIPE_CHUNKS_MAX: Final = 64
# Sleeping for less than this costs more than it measures: smaller debts are added up.
SLEEP_S_MIN: Final = 2e-3


@dataclass(frozen=True, slots=True)
class Network:
    """How bad the network is; a pair is the least and the most of what is drawn at random.

    `latency_s` is drawn for every chunk in either direction (a round trip has two). `bytes_per_s` bounds
    each direction of each connection. `slice_bytes` tears what is sent into segments of that size.
    `idle_close_s` closes a connection on which nothing was sent for so long, `life_s` every one after
    that long; the life is drawn when the connection is made. With `refuse` new connections are reset,
    with `black_hole` nothing passes and nothing closes; what was sent meanwhile comes when it is over.
    """

    latency_s: tuple[float, float] = (0.0, 0.0)
    bytes_per_s: float | None = None
    slice_bytes: tuple[int, int] | None = None
    idle_close_s: float | None = None
    life_s: tuple[float, float] | None = None
    refuse: bool = False
    black_hole: bool = False

    def __post_init__(self) -> None:
        """Refuse what no network does."""
        for name in ("latency_s", "slice_bytes", "life_s"):
            pair = getattr(self, name)
            if pair is not None and not 0 <= pair[0] <= pair[1]:
                raise ConfigurationError(f"{name}={pair}: give the least, not negative, and then the most.")
        if self.slice_bytes is not None and self.slice_bytes[0] < 1:
            raise ConfigurationError(f"slice_bytes={self.slice_bytes}: a slice has at least 1 byte.")
        for name in ("bytes_per_s", "idle_close_s"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ConfigurationError(f"{name}={value}: it must be above 0, or None for no limit.")


CALM: Final = Network()


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
        self.random = random.Random(seed)  # noqa: S311 - a fault injector; a seed makes its draws repeatable
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
        self._tell(self._light.clear if network.black_hole else self._light.set)

    def heal(self) -> None:
        """Make the network good again; connections that a fault has closed stay closed."""
        self.network = CALM

    def cut(self) -> None:
        """Close every connection that is open now."""
        self._tell(self._cut)

    def forward_to(self, upstream: str) -> None:
        """Set where new connections go, for a server that had to be told the proxy's port first."""
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
            self._tell(self._stop.set)
            self._thread.join()

    # What follows runs on the proxy's thread.

    def link(self, client: Streams, server: Streams) -> Link:
        """Make the object for one connection; a proxy that knows a protocol returns its own kind."""
        return Link(self, client, server)

    async def passage(self) -> None:
        """Wait while there is a black hole."""
        await self._light.wait()

    def _tell(self, call: object) -> None:
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
                # By `stop` alone; asyncio's own callback would log it as an error that nobody took.
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


class Streams:
    """The two ends of one socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def close(self) -> None:
        """Reset the connection: what is not sent yet is lost, as when a network drops it."""
        self.writer.transport.abort()


class Link:
    """One connection through the proxy. Lives on the proxy's thread."""

    def __init__(self, proxy: TcpProxy, client: Streams, server: Streams) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._moved_s = time.monotonic()

    def close(self) -> None:
        """End both sides; `run` returns."""
        self._client.close()
        self._server.close()

    async def run(self) -> None:
        """Pass bytes on until a side ends or a fault closes the connection."""
        ends = [
            self._read(self._client, self._server, self.requests),
            self._read(self._server, self._client, self.answers),
            self._close_idle(),
        ]
        if (life_s := self._proxy.network.life_s) is not None:
            ends.append(self._close_old(self._proxy.random.uniform(*life_s)))
        await first_of(ends)

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Turn what the client sent into what the server gets."""
        yield data

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Turn what the server sent into what the client gets."""
        yield data

    async def _read(self, source: Streams, sink: Streams, transform: Transform) -> None:
        """One direction: a delay line, so that latency costs no throughput."""
        pipe: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PIPE_CHUNKS_MAX)
        await first_of([self._fill(source, pipe, transform), self._drain(pipe, sink)])

    async def _fill(
        self, source: Streams, pipe: asyncio.Queue[tuple[float, bytes]], transform: Transform
    ) -> None:
        release_s = 0.0
        with suppress(OSError):  # a reset ends a connection as a close does
            while data := await source.reader.read(READ_BYTES_MAX):
                self._moved_s = time.monotonic()
                async for piece in transform(data):
                    latency_s = self._proxy.random.uniform(*self._proxy.network.latency_s)
                    # Bytes of one connection never overtake each other.
                    release_s = max(release_s, time.monotonic() + latency_s)
                    await pipe.put((release_s, piece))
        # What is on its way when a side ends still arrives.
        await pipe.put((release_s, b""))

    async def _drain(self, pipe: asyncio.Queue[tuple[float, bytes]], sink: Streams) -> None:
        debt_s = 0.0
        with suppress(OSError):
            while True:
                release_s, data = await pipe.get()
                await asyncio.sleep(max(0.0, release_s - time.monotonic()))
                if not data:
                    sink.writer.close()  # unlike an abort this lets go what is not sent yet
                    await sink.writer.wait_closed()
                    return
                for piece in self._sliced(data):
                    debt_s = await self._pay(debt_s, len(piece))
                    await self._proxy.passage()
                    sink.writer.write(piece)
                await sink.writer.drain()
                self._moved_s = time.monotonic()

    def _sliced(self, data: bytes) -> list[bytes]:
        bounds = self._proxy.network.slice_bytes
        if bounds is None:
            return [data]
        pieces, at = [], 0
        while at < len(data):
            size = self._proxy.random.randint(*bounds)
            pieces.append(data[at : at + size])
            at += size
        return pieces

    async def _pay(self, debt_s: float, sent_bytes: int) -> float:
        """Sleep as long as these bytes take; return what is left, less than nothing after a long sleep."""
        if (rate := self._proxy.network.bytes_per_s) is None:
            return 0.0
        debt_s += sent_bytes / rate
        if debt_s < SLEEP_S_MIN:
            return debt_s
        began_s = time.monotonic()
        await asyncio.sleep(debt_s)
        return debt_s - (time.monotonic() - began_s)

    async def _close_idle(self) -> None:
        while True:
            limit_s = self._proxy.network.idle_close_s
            idle_s = time.monotonic() - self._moved_s
            if limit_s is not None and idle_s >= limit_s:
                self._proxy.closed_idle += 1
                return
            # The network may change meanwhile, so never sleep for long.
            await asyncio.sleep(0.05 if limit_s is None else min(0.05, limit_s - idle_s))

    async def _close_old(self, life_s: float) -> None:
        await asyncio.sleep(life_s)
        self._proxy.closed_by_age += 1


async def first_of(coroutines: list[Coroutine[object, object, None]]) -> None:
    """Run them side by side until one ends; end the others and raise what it raised."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Transform: TypeAlias = Callable[[bytes], AsyncIterator[bytes]]
