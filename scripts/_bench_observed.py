"""Everything that watches an app, switched on: metrics each second, the page's events, its log as JSON.

The watchers are a process of their own, as Prometheus and a browser are, and count as the app's own: what
they cost is what the user pays.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

from ehkafka.events import Event, HttpServing
from ehkafka.http.options import Http
from ehkafka.telemetry.json_lines import JsonLines

if TYPE_CHECKING:
    import ehkafka

EVERY_S = 1.0
PATHS = ("/metrics", "/ready", "/health")


class Watchers:
    """A hook that starts the watching process when the app says where it serves; it ends with its parent."""

    def on_event(self, event: Event) -> None:
        """Start it, with a pipe that closes when this process ends."""
        if isinstance(event, HttpServing):
            command = [sys.executable, __file__, event.url]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def observe(app: ehkafka.App) -> None:
    """Switch on whatever watches an app that is not started yet."""
    app._take_http(Http(address="127.0.0.1:0"))  # noqa: SLF001 - as `run(http=…)` does
    app.add_hook(Watchers())
    handler = logging.FileHandler(os.devnull)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def watch(url: str) -> None:
    """Ask for metrics and probes each second, and read the page's events, until stdin ends."""
    threading.Thread(target=_read_events, args=(url,), daemon=True).start()
    threading.Thread(target=_ask, args=(url,), daemon=True).start()
    sys.stdin.buffer.read()


def _ask(url: str) -> None:
    while True:
        for path in PATHS:
            try:
                with urllib.request.urlopen(url + path) as answer:  # noqa: S310 - our own, on loopback
                    answer.read()
            except urllib.error.HTTPError:
                pass  # not ready yet: an answer as any other
        time.sleep(EVERY_S)


def _read_events(url: str) -> None:
    with urllib.request.urlopen(url + "/events") as stream:  # noqa: S310 - our own, on loopback
        while stream.read1(65_536):
            pass


if __name__ == "__main__":
    watch(sys.argv[1])
