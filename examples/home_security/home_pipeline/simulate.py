"""Sends a town's readings to a topic, as fast as asked, and keeps the ledger. A process of its own.

    python -m home_pipeline.simulate --bootstrap 127.0.0.1:9092 --ledger ledger.json

Ends after `--count` readings, at SIGTERM or Ctrl-C, or when its standard input ends (`--while-stdin`), and
then sends one reading more that lies `--closing-s` later, so that the windows before it can be closed. A line
`sell` of its standard input has carbon monoxide sensors sold from then on.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from home_pipeline.ledger import Ledger
from home_pipeline.readings import CARBON_MONOXIDE, SECOND_US, TOPIC, Sensor, Sent, Town
from home_pipeline.stage import when_input_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK_S = 0.05
FORGET_EVERY_S = 30.0
FLUSH_S = 15.0


class Sender:
    """Produces records and notes in the ledger what was acknowledged, in the order of sending."""

    def __init__(self, bootstrap: str, ledger: Ledger) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,  # a retry neither doubles nor swaps a home's readings
                "linger.ms": 20,
                "compression.type": "none",
            }
        )
        self._ledger = ledger
        self.failed: Exception | None = None

    def send(self, sent: Sent) -> None:
        """Hand a record over; waits while the producer's own queue is full."""

        def acknowledged(error: Any, _message: Any) -> None:
            if error is None:
                self._ledger.note(sent)
            else:
                self.failed = KafkaException(error)

        time_ms = sent.timestamp_ms
        while True:
            try:
                self._producer.produce(
                    TOPIC, sent.value, sent.key, timestamp=time_ms, on_delivery=acknowledged
                )
            except BufferError:
                self._producer.poll(TICK_S)
            else:
                return

    def poll(self) -> None:
        """Take acknowledgements in. Raises what made a record fail."""
        self._producer.poll(0)
        if self.failed is not None:
            raise self.failed

    def flush(self) -> None:
        """Wait until everything is acknowledged. Raises if something is not."""
        left = self._producer.flush(FLUSH_S)
        self.poll()
        if left:
            raise TimeoutError(f"{left} readings were not acknowledged within {FLUSH_S:.0f} s")


def paced(records: Iterator[Sent], town: Town, stop: threading.Event) -> Iterator[list[Sent]]:
    """Yield the records whose time has come, tick by tick, until asked to stop."""
    taken = 0
    while not stop.wait(TICK_S):
        due = int((time.time_ns() // 1000 - town.begin_us) * town.rate // SECOND_US)
        if due > taken:
            yield list(islice(records, due - taken))
            taken = due


def simulate(options: argparse.Namespace, stop: threading.Event, sold: list[Sensor]) -> Ledger:
    """Send until asked to stop; return the ledger, which is written, too. What joins `sold` is sold."""
    ledger = Ledger()
    begin_us = options.begin_us or time.time_ns() // 1000
    town = Town(options.homes, options.rate, begin_us, options.seed, options.new_sensor_after_s, sold)
    sender = Sender(options.bootstrap, ledger)
    records = town.sent()
    if options.count:
        for sent in islice(records, options.count):
            sender.send(sent)
            sender.poll()
        last_us = begin_us + options.count * SECOND_US // options.rate
    else:
        _send_paced(paced(records, town, stop), sender, ledger, options)
        last_us = time.time_ns() // 1000
    sender.flush()
    ledger.closing_us = closing_us = last_us + options.closing_s * SECOND_US
    sender.send(town.closing(closing_us))
    sender.flush()
    ledger.write(options.ledger)
    return ledger


def _send_paced(
    batches: Iterator[list[Sent]], sender: Sender, ledger: Ledger, options: argparse.Namespace
) -> None:
    next_s = time.monotonic() + FORGET_EVERY_S
    for batch in batches:
        for sent in batch:
            sender.send(sent)
        sender.poll()
        if time.monotonic() > next_s:
            ledger.forget_before(time.time_ns() // 1000 - options.keep_s * SECOND_US)
            next_s = time.monotonic() + FORGET_EVERY_S


def arguments() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bootstrap", required=True, help="host:port of the broker")
    parser.add_argument("--ledger", type=Path, required=True, help="the file for what was sent")
    parser.add_argument("--homes", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=2_000, help="readings a second")
    parser.add_argument("--count", type=int, default=0, help="send so many at once, then end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--begin-us", type=int, default=0, help="time of the first reading; default: now")
    parser.add_argument("--new-sensor-after-s", type=float, default=60.0)
    parser.add_argument("--closing-s", type=int, default=60)
    parser.add_argument("--keep-s", type=int, default=1_200, help="how long the ledger keeps single readings")
    parser.add_argument("--while-stdin", action="store_true", help="end when standard input ends")
    return parser


def main() -> None:
    """Run until a signal, the end of standard input, or the last of `--count`."""
    options = arguments().parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    sold: list[Sensor] = []

    def on_line(line: str) -> None:
        if line == "sell":
            sold.append(CARBON_MONOXIDE)

    if options.while_stdin:
        when_input_ends(stop.set, on_line)
    ledger = simulate(options, stop, sold)
    print(f"sent {ledger.sent} readings, {sum(ledger.left_out.values())} of them not to be counted")


if __name__ == "__main__":
    main()
