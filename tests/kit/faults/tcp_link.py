"""One connection through a `TcpProxy`: bytes read, transformed, held back, torn to pieces and passed on.

Lives on the proxy's thread, in its event loop; the network's state is looked at for every piece.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from typing import TypeAlias

    from tests.kit.faults.tcp_proxy import TcpProxy

    Transform: TypeAlias = Callable[[bytes], AsyncIterator[bytes]]

READ_BYTES_MAX: Final = 65_536
# Waiting for release in one direction of a connection; beyond it the sender is held up, as by a full pipe.
PIPE_CHUNKS_MAX: Final = 64
# Sleeping for less than this costs more than it measures: smaller debts are added up.
SLEEP_S_MIN: Final = 2e-3


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
