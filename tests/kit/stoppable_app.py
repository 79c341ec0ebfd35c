"""An app in a process of its own, for tests that stop this process: its log of silent brokers, and its page.

A record with the key `hold` keeps the interpreter to itself for as many seconds as its value says. Ends when
its standard input does.
"""

from __future__ import annotations

import ctypes
import json
import sys

import ehkafka
from ehkafka.events import ConnectionProblem, HttpServing
from tests.kit.waiting import wait_until


def report(**what: str) -> None:
    """Write it for the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(bootstrap: str, unreachable_s: float) -> None:
    """Run it."""
    app = ehkafka.App(
        group="g",
        endpoint=ehkafka.Endpoint.kafka(bootstrap),
        start="earliest",
        consumer={"heartbeat.interval.ms": 500},
        unreachable_s=unreachable_s,
        commit_interval_s=0.1,
        stop_s=0.5,
        http="127.0.0.1:0",
    )

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        """Keep the interpreter, if the record says so."""
        if record.key() == b"hold":
            ctypes.PyDLL(None).sleep(int(record.value() or b"0"))

    class Hook:
        """What the test hears of."""

        def on_event(self, event: object) -> None:
            """Tell where the page is, and of silence."""
            if isinstance(event, HttpServing):
                report(url=event.url)
            if isinstance(event, ConnectionProblem) and event.code == "silence":
                report(silence=event.sentence())

    app.add_hook(Hook())
    with app:
        wait_until(lambda: [one.lag_records for one in app.snapshot().partitions] == [0, 0])
        app.keys.pause_partition("t/1")
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
