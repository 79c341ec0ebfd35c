"""Sends records at a steady pace, each with the clock at the beginning of its value: a process of its own.

`python producer.py OPTIONS_JSON` with `bootstrap`, `topic`, `per_s`, and `hot_per_s` more of the key `hot`;
ends when its standard input is closed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE_BYTES = 200
KEYS = 10_000
PAUSE_S = 0.0005
STDIN = 0
FLUSH_S = 5.0


def main() -> None:
    """Send until the harness closes the standard input."""
    options = json.loads(sys.argv[1])
    ended = threading.Event()

    def follow() -> None:
        # See `protocol.py` on why not by `sys.stdin`.
        while os.read(STDIN, 1024):
            pass
        ended.set()

    threading.Thread(target=follow, daemon=True).start()
    send(options["bootstrap"], options["topic"], options["per_s"], options["hot_per_s"], ended.is_set)


def send(bootstrap: str, topic: str, per_s: float, hot_per_s: float, is_over: Callable[[], bool]) -> int:
    """Send until it is over; return how many records were sent."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": 1})
    keys = [b"key-%05d" % number for number in range(KEYS)]
    started_s = time.monotonic()
    sent = hot = 0
    while not is_over():
        since_s = time.monotonic() - started_s
        while sent < since_s * per_s:
            producer.produce(topic, _stamped(), keys[sent % KEYS])
            sent += 1
        while hot < since_s * hot_per_s:
            producer.produce(topic, _stamped(), b"hot")
            hot += 1
        producer.poll(0)
        time.sleep(PAUSE_S)
    producer.flush(FLUSH_S)
    return sent + hot


def _stamped() -> bytes:
    return (b"%d " % time.monotonic_ns()).ljust(VALUE_BYTES, b"x")


if __name__ == "__main__":
    main()
