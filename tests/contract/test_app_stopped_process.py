"""A process that did not run for a while blames no broker for it, and goes on noticing the silent ones."""

from __future__ import annotations

import json
import queue
import signal
import threading
import time
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker
from tests.contract.conftest import Program
from tests.kit.faults.network import Network
from tests.kit.faults.tcp_proxy import TcpProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

UNREACHABLE_S = 3.0
STOPPED_S = 2 * UNREACHABLE_S
STATISTICS_S = UNREACHABLE_S / 6
# For a machine with much to do.
SLACK_S = 1.5


# A record with the key `hold` keeps the interpreter to itself for as many seconds as its value says.
PROGRAM = """
import ctypes
@app.handler("t")
def handle(record):
    if record.key() == b"hold":
        ctypes.PyDLL(None).sleep(int(record.value()))
class Hook:
    def on_event(self, event):
        if isinstance(event, ehkafka.events.HttpServing):
            say("URL", event.url)
        if isinstance(event, ehkafka.events.ConnectionProblem) and event.code == "silence":
            say("SILENCE", event.sentence())
app.add_hook(Hook())
with app:
    while [one.lag_records for one in app.snapshot().partitions] != [0, 0]:
        time.sleep(0.02)
    app.keys.pause_partition("t/1")
    signal.pause()
"""


class Scene:
    """A broker behind a proxy, and the app's process."""

    def __init__(self) -> None:
        self.broker = EmbeddedBroker({"t": 2}).start()
        self.proxy = TcpProxy(self.broker.bootstrap).start()
        self.broker.advertise("127.0.0.1", self.proxy.port)
        consumer = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 500}
        settings = {
            "consumer": consumer,
            "unreachable_s": UNREACHABLE_S,
            "stop_s": 0.5,
            "http": "127.0.0.1:0",
        }
        self.program = Program(SimpleNamespace(bootstrap=self.proxy.address), PROGRAM, **settings)
        self.url = wait_until(lambda: self._lines("URL"))[0]
        self._read = 0

    def _lines(self, word: str) -> list[str]:
        return [line.partition(" ")[2] for line in list(self.program.lines) if line.startswith(word)]

    def log(self) -> list[str]:
        """Return what the log says of silence since it was read last."""
        found = self._lines("SILENCE")
        self._read, before = len(found), self._read
        return found[before:]

    def get(self, path: str) -> Any:
        """Return an answer, also one that is no success."""
        try:
            with urllib.request.urlopen(f"{self.url.rstrip('/')}{path}", timeout=60.0) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def lags(self) -> list[int | None]:
        """Return what is shown, by partition."""
        return [one["lag_records"] for one in self.get("/state")["snapshot"]["partitions"]]

    def stop(self, how: str) -> float:
        """Keep all of the process from running, or its interpreter alone; return when it goes on."""
        if how == "interpreter":
            self.broker.produce("t", [(b"hold", str(round(STOPPED_S)).encode())], partition=0)
            time.sleep(STOPPED_S)
        else:
            self.program.signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            self.program.signal(signal.SIGCONT)
        return time.monotonic()

    def close(self) -> None:
        """End both."""
        self.program.close()
        self.proxy.stop()
        self.broker.close()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Return one in which all is handled, and the second partition is paused: its log is asked for."""
    monkeypatch.delenv("EHKAFKA_HTTP_TOKEN", raising=False)
    scene = Scene()
    try:
        wait_until(lambda: scene.lags() == [0, 0])
        wait_until(lambda: not scene.get("/state")["health"]["reasons"])
        yield scene
    finally:
        scene.close()


@pytest.mark.parametrize("how", ["process", "interpreter"])
def test_who_was_stopped_blames_no_broker(scene: Scene, how: str) -> None:
    """From the first answer on, which was asked for meanwhile; the lag alone is unknown for a moment."""
    first: queue.SimpleQueue[Any] = queue.SimpleQueue()
    timer = threading.Timer(1.0, lambda: first.put(scene.get("/state")))
    timer.start()
    goes_on_s = scene.stop(how)
    states, known_s = [first.get(timeout=30.0)], None
    while time.monotonic() - goes_on_s < UNREACHABLE_S:
        states.append(scene.get("/state"))
        if known_s is None and [one["lag_records"] for one in states[-1]["snapshot"]["partitions"]] == [0, 0]:
            known_s = time.monotonic() - goes_on_s
        assert scene.get("/ready")["reasons"] == []
    assert [state["health"]["reasons"] for state in states] == [[]] * len(states)
    assert not any(state["snapshot"]["is_cut_off"] for state in states)
    assert max(state["snapshot"]["broker_silence_s"] for state in states) < UNREACHABLE_S
    # A lag without a number and with an age is shown as a leader's silence.
    partitions = [one for state in states for one in state["snapshot"]["partitions"]]
    assert [one for one in partitions if one["lag_records"] is None and one["log_age_s"] is not None] == []
    assert known_s is not None
    assert known_s < STATISTICS_S + SLACK_S
    assert scene.log() == []


@pytest.mark.parametrize("how", ["", "process"])
def test_a_broker_that_is_silent_is_reported_in_time(scene: Scene, how: str) -> None:
    """Whether it fell silent before the process was stopped, or while it runs."""
    scene.proxy.network = Network(black_hole=True)
    began_s = scene.stop(how) if how else time.monotonic()
    wait_until(lambda: "No broker of" in " ".join(scene.get("/state")["health"]["reasons"]))
    took_s = time.monotonic() - began_s
    assert took_s < UNREACHABLE_S + STATISTICS_S + SLACK_S
    # What the paused partition's leader said last may be older than what any broker did.
    lines: list[str] = []
    wait_until(
        lambda: "no broker of 127.0.0.1" in " ".join(lines), meanwhile=lambda: lines.extend(scene.log())
    )
    scene.proxy.heal()
    wait_until(lambda: not scene.get("/state")["health"]["reasons"])
