"""Row 25: each watcher is stuck (the log's sink, a hook, a client that reads nothing); no record waits."""

from __future__ import annotations

import http.client
import json
import logging
import re
import socket
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import HttpServing
from tests.kit.events import Events
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDS = 1_600
WORKERS = 16
WORK_S = 0.005
# Both are mostly sleep: a machine that is busy slows them alike.
SLOWER_MAX = 1.5
ACT_S = 2.0
CLIENTS = 40
TOKEN = "a-token-of-24-characters"


class Sink(logging.Handler):
    """A log that stands still once it `blocks`, as a full pipe does."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.freed, self.is_stuck = False, threading.Event(), threading.Event()

    def emit(self, _record: logging.LogRecord) -> None:
        """Take a line, or do not."""
        if self.blocks:
            self.is_stuck.set()
            self.freed.wait()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """Return one that has the log of the app."""
    found = Sink()
    logger = logging.getLogger("ehkafka")
    logger.addHandler(found)
    yield found
    found.freed.set()
    logger.removeHandler(found)


def posted(port: int, asked: dict[str, Any]) -> dict[str, Any]:
    """Carry an action out over HTTP; it must be answered in time."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ACT_S)) as connection:
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        connection.request("POST", "/actions", json.dumps({"target": "key", **asked}), headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer


def test_row_25_the_data_path_and_actions_wait_for_no_watcher(
    embedded_stage: Callable[..., Any], sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are handled as quickly as before; poison is skipped, retried and paused meanwhile."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)
    stage = embedded_stage(8)
    is_repaired = threading.Event()

    def handle(record: Any) -> None:
        time.sleep(WORK_S)
        if record.key() == b"poison" or (record.key() == b"broken" and not is_repaired.is_set()):
            raise ValueError("no luck")

    load = stage.load(keys=[b"key-%d" % number for number in range(400)])
    app = stage.app(handle, workers=WORKERS, on_failure=ehkafka.Hold(), http="127.0.0.1:0")
    app.add_hook(events := Events())
    app.start()
    wait_until(lambda: events.of(HttpServing) and len(app.snapshot().partitions) == 8, "the app")
    port = int(events.of(HttpServing)[0].url.rpartition(":")[2])

    def took_s() -> float:
        wanted = app.snapshot().finished_records + RECORDS * SCALE
        began_s = time.monotonic()
        load.produce(RECORDS * SCALE)
        wait_until(lambda: app.snapshot().finished_records == wanted, "the records", timeout_s=120.0)
        return time.monotonic() - began_s

    took_s()
    calm_s = took_s()
    sink.blocks = True
    with ExitStack() as opened:
        for number in range(CLIENTS):
            client = opened.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            # The answer is large, and is never read; half of them ask for one that does not end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            path = b"/metrics" if number % 2 else b"/events"
            client.sendall(b"GET %s HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" % path)
        for key in (b"poison", b"broken"):
            load.put(key)
        load.produce(0)
        wait_until(lambda: len([k for k in app.keys.waiting() if k.status == "held"]) == 2, "held keys")
        assert sink.is_stuck.wait(30.0)
        stuck_s = took_s()
        by_hand = [
            posted(port, {"do": "skip", "name": "poison"}),
            posted(port, {"do": "pause", "name": "broken"}),
            posted(port, {"do": "resume", "name": "broken"}),
        ]
        is_repaired.set()
        by_hand.append(posted(port, {"do": "retry", "name": "broken"}))
        stage.wait_until_committed(load.ends)
        assert not sink.freed.is_set()
    assert [one.get("changed") for one in by_hand] == [True] * 4, by_hand
    assert re.search(r"skipped\.$", by_hand[0]["text"])
    sink.freed.set()
    app.stop()
    judge(stage)
    assert stuck_s <= SLOWER_MAX * calm_s + 0.5
