"""An app's server from start to stop and again: its socket, token and clients, and what is not installed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.http import Http
from tests.contract import contract_handlers
from tests.contract.asking import TOKEN, ask
from tests.kit.inside import port_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def listens(port: int) -> bool:
    """Whether a server takes a connection."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2.0).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return a port that is free."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        found: int = one.getsockname()[1]
    yield found
    assert not listens(found), "the port is still taken"


def test_an_app_serves_again_on_its_port(lab: Any, port: int) -> None:
    """However it is started; metrics are scraped many at a time in each run."""
    app = lab.app(lab.recorder(), http=f"127.0.0.1:{port}")

    async def scrape() -> list[int]:
        return [
            one[0]
            for one in await asyncio.gather(*(asyncio.to_thread(ask, port, "/metrics") for _ in range(8)))
        ]

    def check() -> None:
        assert ask(port, "/live")[0] == 200
        assert asyncio.run(scrape()) == [200] * 8
        wait_until(lambda: ask(port, "/ready")[0] == 200)
        with socket.create_connection(("127.0.0.1", port)) as reading:
            reading.sendall(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            seen = b""
            while b"event: state" not in seen:
                seen += reading.recv(65_536)

    for _ in range(2):
        with app:
            check()
        assert not listens(port)

    async def within() -> None:
        async with app:
            await asyncio.to_thread(check)

    asyncio.run(within())


def test_a_start_that_fails_lets_go_of_the_port(lab: Any, port: int) -> None:
    """Of an on_start, and without a broker."""
    app = lab.app(lab.recorder(), http=f"127.0.0.1:{port}")

    @app.on_start
    def fail() -> None:
        assert listens(port)
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError):
        app.start()
    assert not listens(port)
    other = lab.app(
        lab.recorder(),
        http=f"127.0.0.1:{port}",
        endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"),
        connect_s=2.0,
    )
    with pytest.raises(ehkafka.EhkafkaError):
        other.start()


def test_two_apps_have_a_server_each(lab: Any, port: int) -> None:
    """With sessions and streams of their own."""
    one = lab.app(lab.recorder(), http=f"127.0.0.1:{port}", group="one")
    # Of another topic: the commits of a history are taken as those of one group.
    two = lab.app(lab.recorder(), "u", http="127.0.0.1:0", group="two")
    with one, two:
        other = port_of(two)
        groups = [json.loads(ask(which, "/snapshot")[1])["group"] for which in (port, other)]
        assert groups == ["one", "two"]
    assert not listens(other)


def test_clients_that_do_not_read_hold_nothing_up(lab: Any, recorder: Any, port: int) -> None:
    """Records are handled and committed, and the stop is quick, with as many as may be."""
    app = lab.app(recorder, http=f"127.0.0.1:{port}")
    deaf = []
    with app:
        for number in range(100):
            one = socket.create_connection(("127.0.0.1", port))
            path = ("/events", "/state", "/metrics", "/snapshot")[number % 4]
            one.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode() * 20)
            deaf.append(one)
        lab.produce("a b c d " * 50)
        wait_until(lambda: lab.committed() == 200)
        assert ask(port, "/live")[0] == 200
        app.keys.pause_partition("t/0")
    for one in deaf:
        one.close()


def test_the_token_is_said_nowhere(lab: Any, recorder: Any, port: int, caplog: Any, tmp_path: Path) -> None:
    """Not in answers, logs at any level, errors, or the text of what has it."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG):
        app = lab.app(recorder, http=Http(address=f"127.0.0.1:{port}", token_file=file))
        with app:
            own = {"authorization": f"Bearer {TOKEN}"}
            action = {"do": "skip", "target": "key", "name": "a"}
            for headers in (own, {}, {"authorization": f"Bearer {TOKEN}x"}, {**own, "host": "evil.example"}):
                for path in ("/", "/live", "/health", "/metrics", "/snapshot", "/state", "/nothing"):
                    seen += map(str, ask(port, path, **headers))
                seen += map(str, ask(port, "/actions", action, **headers))
                seen += map(str, ask(port, "/login", {"token": TOKEN}, **headers))
                seen += map(str, ask(port, "/login", {"token": TOKEN + "x"}, **headers))
            seen.append(str(ask(port, f"/state?token={TOKEN}x")[0]))
            seen += [
                repr(one)
                for one in (app, app.http, app._life.web.site, app._life.web.site.application, app.settings)
            ]
            seen += [str(vars(app._life.web.site)), app.snapshot().as_dict().__repr__(), caplog.text]
    file.write_text(TOKEN[:3])
    with pytest.raises(ehkafka.errors.ConfigurationError) as refused:
        Http(token_file=file).read_token()
    assert not [text for text in (*seen, caplog.text, str(refused.value)) if TOKEN in text]


def test_worker_processes_have_nothing_of_the_socket(
    lab: Any, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the port would stay taken by them, and clients would wait without end."""
    monkeypatch.setenv(contract_handlers.DIRECTORY, str(tmp_path))
    app = lab.app(contract_handlers.handle, http=f"127.0.0.1:{port}", workers=ehkafka.Processes(1))
    with app:
        ours = Path(f"/proc/self/fd/{app._life.web.site._server._socket.fileno()}").readlink()
        lab.produce("a b", value=b"sleep 0")
        wait_until(lambda: lab.committed() == 2)
        children = [
            pid
            for task in Path("/proc/self/task").iterdir()
            for pid in (task / "children").read_text().split()
        ]
        assert children
        for pid in children:
            theirs = [one.readlink() for one in Path(f"/proc/{pid}/fd").iterdir()]
            assert theirs
            assert ours not in theirs


@pytest.mark.parametrize(
    ("missing", "code", "says"),
    [
        ("starlette", "app.http_app", "'starlette<"),
        ("uvicorn", "app.start()", "'uvicorn<"),
        ("prometheus_client", "app.start()", "pip install"),
    ],
)
def test_what_is_not_installed_is_said_in_one_sentence(missing: str, code: str, says: str) -> None:
    """Before anything is bound or consumed."""
    source = f"""
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == {missing!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name={missing!r})
        sys.meta_path.insert(0, Missing())
        import ehkafka
        app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"),
            http="127.0.0.1:0")
        @app.handler("t")
        def handle(record): ...
        try:
            {code}
        except ehkafka.EhkafkaError as error:
            print(type(error).__name__, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )
    assert done.stdout.startswith("MissingExtraError"), done.stderr
    assert says in done.stdout
    assert done.stdout.count("\n") == 1
