"""A process that did not run for a while blames no broker for it, and goes on noticing the silent ones."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker
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


class Scene:
    """A broker behind a proxy, and the app's process."""

    def __init__(self) -> None:
        self.broker = EmbeddedBroker({"t": 2}).start()
        self.proxy = TcpProxy(self.broker.bootstrap).start()
        self.broker.advertise("127.0.0.1", self.proxy.port)
        program = [sys.executable, "-m", "tests.kit.stoppable_app", self.proxy.address, str(UNREACHABLE_S)]
        self.process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._lines.get(timeout=30.0)["url"]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def log(self) -> list[str]:
        """Return what the log says of silence since it was read last."""
        found = []
        while not self._lines.empty():
            found.append(self._lines.get()["silence"])
        return found

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
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            self.process.send_signal(signal.SIGCONT)
        return time.monotonic()

    def close(self) -> None:
        """End both."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(20.0)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join()
            self.process.stdout.close()
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
