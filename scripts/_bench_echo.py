"""A service on the loopback that answers each byte after 5 ms; ends when its standard input does.

Started by `_bench_handlers`; prints its port.
"""

from __future__ import annotations

import asyncio
import sys

from _bench_handlers import IO_S


class Echo(asyncio.Protocol):
    """One connection: a request is a byte, and so is its answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer later."""
        asyncio.get_running_loop().call_later(IO_S, self.transport.write, data)


async def main() -> None:
    """Serve until the benchmark ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
