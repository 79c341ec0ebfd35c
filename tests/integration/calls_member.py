"""A member of a group as a program whose handler keeps a log of its own, see `tests.kit.call_log`.

What the handler does is said by each record's value, see `COSTS_S`. SIGTERM stops it; it leaves as well when
its standard input ends.

    python calls_member.py --log FILE --bootstrap 127.0.0.1:9092 --group g --topic t --kind threads
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka.testing import JsonLinesHistory
from tests.kit.call_log import BEGUN, ENDED, FAILED, CallLog

if TYPE_CHECKING:
    from collections.abc import Callable

# What a record's value asks for: nothing, less than a quick call, about as long as one, more, a millisecond.
COSTS_S = {b"f": 0.0, b"q": 10e-6, b"m": 30e-6, b"s": 90e-6, b"w": 1e-3}
# Behind it: the first attempt fails.
FAILS = b"!"


def main() -> int:
    """Run until a signal comes."""
    options = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=leave_with_parent, name="parent-watch", daemon=True).start()
    history = JsonLinesHistory(options.history) if options.history else None
    app = make_app(options, CallLog(options.log, options.notes), history)
    try:
        app.run()
    except ehkafka.EhkafkaError as error:
        logging.getLogger("member").exception("ended by an error")
        return error.exit_code
    finally:
        if history is not None:
            history.close()
    return 0


def make_app(options: argparse.Namespace, log: CallLog, history: JsonLinesHistory | None) -> ehkafka.App:
    """Build the app from the command line."""
    app = ehkafka.App(
        group=options.group,
        endpoint=ehkafka.Endpoint.kafka(options.bootstrap),
        start="earliest",
        history=history,
        commit_interval_s=0.1,
        consumer=dict(pair.split("=", 1) for pair in options.consumer),
    )
    app.handler(
        options.topic,
        workers=options.workers,
        order_by=by_own_key if options.order_by == "own" else ehkafka.by_key,
        retry=ehkafka.Retry(attempts=3, first_s=0.005, max_s=0.05),
    )(handler_with(log) if options.kind == "threads" else async_handler_with(log))
    return app


def by_own_key(record: ehkafka.Record) -> object:
    """Order by what only this function knows; it must be asked on the poll thread alone."""
    assert threading.current_thread().name == "ehkafka-poll"
    return ("own", record.key())


def handler_with(log: CallLog) -> Callable[[ehkafka.Record], None]:
    """Return the handler that threads call."""
    note = log.note

    def handle(record: ehkafka.Record) -> None:
        note(BEGUN, record)
        cost_s, fails = cost_of(record)
        if cost_s >= 1e-3:
            time.sleep(cost_s)
        elif cost_s:
            busy(cost_s)
        note(FAILED if fails else ENDED, record)
        if fails:
            raise ValueError("once")

    return handle


def async_handler_with(log: CallLog) -> Callable[[ehkafka.Record], Any]:
    """Return the handler that an event loop runs."""
    note = log.note

    async def handle(record: ehkafka.Record) -> None:
        note(BEGUN, record)
        cost_s, fails = cost_of(record)
        if cost_s >= 1e-3:
            await asyncio.sleep(cost_s)
        elif cost_s:
            busy(cost_s)
        note(FAILED if fails else ENDED, record)
        if fails:
            raise ValueError("once")

    return handle


def cost_of(record: ehkafka.Record) -> tuple[float, bool]:
    """Return how long a call takes, and whether it fails."""
    value = record.value() or b""
    return COSTS_S[value[:1]], value[1:] == FAILS and record.attempt == 1


def busy(cost_s: float) -> None:
    """Keep the interpreter for so long."""
    ends_s = time.perf_counter() + cost_s
    while time.perf_counter() < ends_s:
        pass


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("log", "bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--history", help="a file for the engine's own history")
    parser.add_argument("--notes", type=int, default=1_000_000, help="how many the log can hold")
    parser.add_argument("--kind", choices=["threads", "asyncio"], default="threads")
    parser.add_argument("--order-by", choices=["key", "own"], default="key")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--consumer", action="append", default=[], metavar="PROPERTY=VALUE")
    return parser.parse_args()


def leave_with_parent() -> None:
    """Leave at once when whoever started this is gone: its end of the pipe closes."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
