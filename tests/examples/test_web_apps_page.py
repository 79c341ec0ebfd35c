"""The web app of the page, served by uvicorn as the page says: its client works, its probes, its ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing.ports import free_ports
from tests.kit.http_server import serving
from tests.kit.pages import ROOT, blocks_of, shell_commands
from tests.kit.running import Running
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.testing import EmbeddedBroker
    from tests.kit.http_server import Answer, Request

PAGE = ROOT / "docs/guides/web-apps.md"
PROGRAM = next(block for block in blocks_of(PAGE) if block.not_run is not None)
SERVE = next(
    command
    for block in blocks_of(PAGE)
    if block.language == "console"
    for command in shell_commands(block)
    if "uvicorn" in command
)
# What keeps a failed call from ending the server.
PATIENCE = ", retry=ehkafka.Retry(attempts=10), on_failure=ehkafka.Hold()"
IMPATIENT = PROGRAM.text.replace(PATIENCE, "")
LIMIT_S = 30.0


class Guard:
    """The service that the handler calls: it keeps what it got, and refuses when it is to."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.refuses = False
        self.url = ""

    def answer(self, request: Request) -> Answer:
        """Take one call."""
        self.calls.append(json.loads(request.body))
        return (503 if self.refuses else 204), {}, b""


@pytest.fixture
def guard() -> Iterator[Guard]:
    """Run the service."""
    guard = Guard()
    with serving(guard.answer, keeps_open=True) as port:
        guard.url = f"http://127.0.0.1:{port}"
        yield guard


class Served(Running):
    """The page's program, as its command serves it."""

    def __init__(self, folder: Path, text: str, broker: EmbeddedBroker, guard: Guard) -> None:
        (folder / "main.py").write_text(text)
        (port,) = free_ports(1)
        assert SERVE.startswith("python ")
        assert "--port 8000" in SERVE
        words = SERVE.replace("8000", str(port)).split()[1:]
        own = {"EHKAFKA_BOOTSTRAP": broker.bootstrap, "GUARD_URL": guard.url, "PYTHONPATH": f"{ROOT}"}
        arguments = (*words, "--host", "127.0.0.1")
        super().__init__(folder, arguments, command=[sys.executable], env={**os.environ, **own})
        self.url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of an answer; 0 while there is none."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5.0) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""


@pytest.fixture
def serve(
    tmp_path: Path, embedded_broker_factory: Callable[..., EmbeddedBroker], guard: Guard
) -> Iterator[Callable[..., tuple[Served, EmbeddedBroker]]]:
    """Serve the page's program, or what a test makes of it, with a broker."""
    with ExitStack() as running:

        def start(text: str = PROGRAM.text) -> tuple[Served, EmbeddedBroker]:
            broker = embedded_broker_factory({"alarms": 2})
            served = Served(tmp_path, text, broker, guard)
            running.callback(served.close)
            return served, broker

        yield start


def test_its_handler_uses_the_lifespans_client_and_it_stops_in_good_order(
    serve: Callable[..., tuple[Served, EmbeddedBroker]], guard: Guard
) -> None:
    """Each record is posted once and committed; requests and probes are answered; SIGTERM ends both."""
    served, broker = serve()
    wait_until(lambda: served.get("/handled")[0] == 200, timeout_s=LIMIT_S)
    broker.produce("alarms", [(f"home-{n % 7}".encode(), json.dumps({"n": n}).encode()) for n in range(50)])
    wait_until(lambda: served.get("/handled") == (200, "50"), timeout_s=LIMIT_S)
    assert sorted(call["n"] for call in guard.calls) == list(range(50))
    assert served.get("/kafka/live")[0] == 200
    assert served.get("/kafka/ready")[0] == 200
    assert "ehkafka_running" in served.get("/kafka/metrics")[1]
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(LIMIT_S)
    assert "Application shutdown complete" in served.stderr
    assert sum(broker.committed("alerts", "alarms").values()) == 50


def test_when_the_app_fails_the_server_ends_and_the_log_has_the_error(
    serve: Callable[..., tuple[Served, EmbeddedBroker]], guard: Guard
) -> None:
    """It ends by itself; nothing of the record is committed."""
    served, broker = serve(IMPATIENT)
    wait_until(lambda: served.get("/handled")[0] == 200, timeout_s=LIMIT_S)
    guard.refuses = True
    broker.produce("alarms", [(b"home-1", b'{"n": 0}')])
    assert served.process.wait(LIMIT_S) != 0
    log = served.stderr
    assert "HandlerFailedError: Handler 'call_the_guard' failed at alarms[" in log
    assert "503" in log
    assert not any(broker.committed("alerts", "alarms").values())


def test_a_raised_error_ends_the_lifespan_and_not_the_server(
    serve: Callable[..., tuple[Served, EmbeddedBroker]], guard: Guard
) -> None:
    """What the page says of `"raise"` there: the log has the error, and uvicorn goes on."""
    served, broker = serve(IMPATIENT.replace('"signal"', '"raise"'))
    wait_until(lambda: served.get("/handled")[0] == 200, timeout_s=LIMIT_S)
    guard.refuses = True
    broker.produce("alarms", [(b"home-1", b'{"n": 0}')])
    wait_until(lambda: "errors.HandlerFailedError: " in served.stderr, timeout_s=LIMIT_S)
    assert served.get("/handled") == (200, "0")
    assert served.get("/kafka/ready")[0] == 503
