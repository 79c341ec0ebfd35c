"""The TCP proxy: what a policy does to the bytes of a connection, without any Kafka."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import ConfigurationError
from tests.kit.faults.network import Network
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_S = 10.0


class Echo(socketserver.ThreadingTCPServer):
    """A server that sends back what it gets, and notes how large the pieces were."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.pieces: list[int] = []
        self.address = f"127.0.0.1:{self.server_address[1]}"


class Answers(socketserver.BaseRequestHandler):
    """One connection to it."""

    server: Echo

    def handle(self) -> None:
        """Send it all back."""
        with suppress(OSError):
            while data := self.request.recv(65_536):
                self.server.pieces.append(len(data))
                self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    """Run an echo server."""
    with Echo() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[TcpProxy]:
    """Run a proxy before it."""
    with TcpProxy(echo.address) as running:
        yield running


def connect(proxy: TcpProxy) -> socket.socket:
    """Open a connection through the proxy."""
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=LIMIT_S)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def ask(client: socket.socket, data: bytes) -> bytes:
    """Send bytes and read as many back."""
    client.sendall(data)
    return read(client, len(data))


def read(client: socket.socket, size: int) -> bytes:
    """Read so many bytes, fewer if the connection ends."""
    answer = b""
    while len(answer) < size and (more := client.recv(size - len(answer))):
        answer += more
    return answer


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of a connection, in whatever way it comes."""
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_latency_delays_each_direction_and_keeps_the_order(proxy: TcpProxy) -> None:
    """Two delays of 50 to 60 ms make the round trip; random delays never swap bytes."""
    proxy.network = Network(latency_s=(0.05, 0.06))
    with connect(proxy) as client:
        began_s = time.monotonic()
        assert ask(client, b"x") == b"x"
        assert time.monotonic() - began_s >= 0.1
        proxy.network = Network(latency_s=(0.0, 0.02))
        sent = b"".join(b"%04d" % number for number in range(200))
        for at in range(0, len(sent), 40):
            client.sendall(sent[at : at + 40])
            time.sleep(0)
        assert read(client, len(sent)) == sent


def test_a_narrow_network_takes_its_time(proxy: TcpProxy) -> None:
    """20 kB at 100 kB/s cannot come before a fifth of a second is over."""
    proxy.network = Network(bytes_per_s=100_000)
    with connect(proxy) as client:
        began_s = time.monotonic()
        assert ask(client, b"x" * 20_000) == b"x" * 20_000
        # Less what may still be owed in each direction.
        assert time.monotonic() - began_s >= 0.19


def test_what_is_sent_is_torn_to_slices(proxy: TcpProxy, echo: Echo) -> None:
    """No more than 16 bytes at a time leave the proxy: the server never reads 600 bytes at once."""
    proxy.network = Network(slice_bytes=(1, 16), bytes_per_s=20_000)
    with connect(proxy) as client:
        assert ask(client, b"0123456789" * 60) == b"0123456789" * 60
    assert len(echo.pieces) >= 5
    assert max(echo.pieces) < 600


def test_a_stopped_proxy_closes_everything(echo: Echo) -> None:
    """No connection and no thread is left."""
    others = set(threading.enumerate())  # a fixture of the whole session has a proxy too
    proxy = TcpProxy(echo.address).start()
    with connect(proxy) as client:
        assert ask(client, b"x") == b"x"
        proxy.stop()
        assert is_closed(client)
    assert not any(thread.name == "tcp-proxy" for thread in set(threading.enumerate()) - others)
    proxy.stop()
    with pytest.raises(ConfigurationError, match="make a new one"):
        proxy.start()
