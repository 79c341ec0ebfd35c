"""Clients that do not read, texts that are no text, a server that ends and starts again."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import ActionTaken
from ehkafka.http import protocol, server
from ehkafka.http.stream import STREAMS_MAX
from ehkafka.telemetry.snapshot import Health
from tests.http.conftest import ask_for, connected
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

NO_TEXT = "no luck with \udce9.txt"


def connections(client: Any) -> int:
    """Return how many the server has."""
    return len(client.site._server._server.server_state.connections)


def descriptors() -> int:
    """Return how many file descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def closed(one: socket.socket) -> bool:
    """Tell whether the server has closed a connection."""
    try:
        return one.recv(64) == b""
    except ConnectionResetError:
        return True


def test_a_text_that_is_no_unicode_breaks_no_answer(client: Any) -> None:
    """Names of files, and errors with them, may hold bytes that Python keeps as halves of characters."""
    client.served.reasons = (NO_TEXT,)
    client.served.health = lambda: Health((NO_TEXT,))
    client.site.journal.on_event(ActionTaken("skip", "key", NO_TEXT, "me", changed=True, result=NO_TEXT))
    health = client.ask("/health")
    assert (health.status, health.json["reasons"]) == (503, [NO_TEXT])
    assert client.ask("/state").json["health"]["reasons"] == [NO_TEXT]
    with ExitStack() as stack:
        one = connected(client, stack, ask_for("/events"))
        seen = b""
        while b"event: state" not in seen or b"\\udce9" not in seen:
            seen += one.recv(65_536)
        client.site.journal.on_event(ActionTaken("skip", "key", "t/0@0", "me", changed=True, result=NO_TEXT))
        while b"event: event" not in seen:
            seen += one.recv(65_536)


@pytest.mark.parametrize("path", ["/state", "/events", "/metrics"])
def test_a_client_that_does_not_read_is_let_go(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Else its answer is kept for as long as it likes; one that reads stays."""
    monkeypatch.setattr(protocol, "IDLE_S", 0.5)
    monkeypatch.setattr(protocol, "CHECK_S", 0.1)
    client = serve()
    client.served.health = lambda: Health(("x" * 8_000_000,))
    client.served.metrics = lambda _accept: (b"x" * 8_000_000, "text/plain")
    with ExitStack() as stack:
        deaf = connected(client, stack, ask_for(path), receive_bytes=4_096)
        reading = connected(client, stack, ask_for("/events"))
        wait_until(lambda: connections(client) == 2)
        for _ in range(30):
            reading.recv(1_000_000)
            time.sleep(0.05)
        wait_until(lambda: connections(client) == 1)
        deaf.close()


def test_more_connections_than_may_be_are_closed_at_once(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a file descriptor, which the app's own connections need: the longest silent one goes."""
    monkeypatch.setattr(protocol, "CONNECTIONS_MAX", 5)
    client = serve()
    with ExitStack() as stack:
        silent = [connected(client, stack) for _ in range(4)]
        # A body that never comes keeps no place either.
        head = b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        silent.append(connected(client, stack, head + b"content-length: 100\r\n\r\n{"))
        wait_until(lambda: connections(client) == 5)
        for one in silent:
            further = connected(client, stack, ask_for("/state"))
            assert further.recv(64).startswith(b"HTTP/1.1 200")
            assert closed(one)
            assert connections(client) == 5


@pytest.mark.parametrize("path", ["/live", "/ready", "/startup", "/health"])
def test_probes_are_answered_while_all_places_are_being_answered(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A busy page is no reason to restart the app; all else is refused, and beyond a number probes, too."""
    monkeypatch.setattr(protocol, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(protocol, "FOR_PROBES", 2)
    client = serve()
    with ExitStack() as stack:
        for _ in range(3):
            assert connected(client, stack, ask_for("/events")).recv(64).startswith(b"HTTP/1.1 200")
        assert client.ask(path).status == 200
        assert client.ask("/state").status == 503
        for _ in range(20):  # a client that keeps these places goes for the next probe
            connected(client, stack)
        assert client.ask(path).status == 200
        assert connections(client) <= 5


def test_a_flood_of_silent_connections_leaves_the_app_its_descriptors(client: Any) -> None:
    """Without a token, faster than they are closed: each is looked at before the next ones are taken."""
    before, peak = descriptors(), 0
    assert client.site._server._server.config.backlog <= 64
    with ExitStack() as stack:
        for at in range(700):
            connected(client, stack)
            peak = max(peak, descriptors() - before - at)
        assert client.ask("/live").status == 200
    assert peak <= protocol.CONNECTIONS_MAX + 100


def test_connections_leave_file_descriptors_to_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few the process may have."""
    for files, most in ((resource.RLIM_INFINITY, 256), (65_536, 256), (1_024, 256), (256, 64)):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, files=files: (files, files))
        assert protocol.connections_max() == most


def test_a_client_that_leaves_within_its_request_is_no_error(
    client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No client can fill the log."""
    with caplog.at_level(logging.WARNING), ExitStack() as stack:
        head = b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        one = connected(client, stack, head + b"content-length: 100\r\n\r\n{")
        wait_until(lambda: connections(client) == 1)
        one.close()
        wait_until(lambda: connections(client) == 0)
        assert client.ask("/live").status == 200
    assert not caplog.records


def test_a_server_that_dies_lets_go_of_its_address(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asks sees that it is gone, instead of waiting for an answer that does not come."""

    async def die(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(server.uvicorn.Server, "main_loop", die)
    client = serve()
    wait_until(lambda: not client.site._server._thread.is_alive())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", client.port), timeout=2.0)
    assert "has ended" in caplog.text


def test_a_head_of_the_stream_takes_no_place(client: Any) -> None:
    """It has no body that could ever end."""
    head = b"HEAD" + ask_for("/events").removeprefix(b"GET")
    with ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            assert connected(client, stack, head).recv(64).startswith(b"HTTP/1.1 200")
        assert connected(client, stack, ask_for("/events")).recv(64).startswith(b"HTTP/1.1 200")


def test_localhost_is_this_machine_wherever_it_listens(serve: Callable[..., Any], token: str) -> None:
    """Of an address for all, too."""
    outside = serve(address="0.0.0.0:0")
    assert outside.ask("/state", host="localhost:1", authorization=f"Bearer {token}").status == 200


def test_who_asked_is_named_in_few_characters(client: Any, token: str) -> None:
    """Whatever a proxy, or who says to be one, has sent."""
    headers = {"authorization": f"Bearer {token}", "x_forwarded_for": "x" * 4_000}
    client.post("/actions", {"do": "skip", "target": "key", "name": "a"}, **headers)
    [asked] = client.served.asked
    assert len(asked["by"]) < 120


def test_probes_are_answered_while_everything_else_waits(client: Any, token: str) -> None:
    """However many actions wait for the poll loop."""
    release = threading.Event()
    client.served.act = lambda _asked: release.wait(20.0)
    head = f"POST /actions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
    body = b'{"do":"skip","target":"key","name":"a"}'
    request = head.encode() + b"content-type: application/json\r\ncontent-length: 39\r\n\r\n" + body
    with ExitStack() as stack:
        stack.callback(release.set)
        for _ in range(60):
            connected(client, stack, request)
        wait_until(lambda: connections(client) == 60)
        began_s = time.monotonic()
        assert client.ask("/live").status == 200
        assert time.monotonic() - began_s < 2.0


def test_two_event_loops_are_served_at_a_time_and_one_after_the_other(client: Any) -> None:
    """The app's own server, the same mounted in another web app, and the server of the next run."""
    slow = threading.Event()

    def measure(_accept: str) -> tuple[bytes, str]:
        slow.wait(0.05)
        return b"up 1\n", "text/plain"

    client.served.metrics = measure

    async def ask(path: str) -> int:
        status: list[int] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(60.0)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])

        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
        }
        await client.site.application(scope, receive, send)
        return status[0]

    async def several() -> list[int]:
        return list(await asyncio.gather(*(ask("/metrics") for _ in range(4))))

    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(several()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    found.append(asyncio.run(several()))
    assert found == [[200] * 4] * 4
