"""Measurements of bytes: what arrives on the sockets for each byte of the log that was handled.

The slope of librdkafka's `rxbytes` between two of its statistics, against the records finished between the
same two moments. Both sides hear the statistics in the same way, so neither has to be believed.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from _bench_bare import BATCH_RECORDS, WAITING_RECORDS_MAX, bare_consumer
from _bench_engine import make_app, stop_now, time_until
from _bench_handlers import handler
from _bench_marks import BEGIN, END, mark
from _bench_window import watch

from ehkafka.run.observation import totals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _bench_window import Window

STATISTICS_MS = 500
# Until the backlog is full and what was read ahead at the start is gone.
FULL_S = 5.0
# The partition that is stalled, and where: first it is handled as any other.
STALLED_PARTITION, STALLED_OFFSET = 3, 200
_RECEIVED = re.compile(r'"rxbytes": ?(\d+)')
_READ_AHEAD = re.compile(r'"fetchq_cnt": ?(\d+)')
_CLOCK = re.compile(r'"ts": ?(\d+)')


class Sample(NamedTuple):
    """One text of statistics: when, and what had come by then."""

    # Of the monotonic clock.
    at_s: float
    received_bytes: int
    # Records handed out by the client or read ahead: what was fetched and thrown away is not among them.
    kept_records: int


class SocketBytes:
    """What one client has received, each time that its statistics say so."""

    def __init__(self) -> None:
        # Written by the thread that polls.
        self.samples: list[Sample] = []
        # How many records the client has handed out; set before it polls.
        self.count_received: Callable[[], int] = lambda: 0
        self._last = ""

    def properties(self) -> dict[str, Any]:
        """Return the client properties with which it hears them."""
        return {"statistics.interval.ms": STATISTICS_MS, "stats_cb": self.take}

    def take(self, text: str) -> None:
        """Take librdkafka's statistics."""
        clock = _CLOCK.search(text)
        assert clock is not None, text[:200]
        received = sum(map(int, _RECEIVED.findall(text[: text.find('"topics":')])))
        # All partitions hand out by one queue, and each tells the length of that.
        kept = self.count_received() + max(map(int, _READ_AHEAD.findall(text)), default=0)
        self.samples.append(Sample(int(clock[1]) / 1e6, received, kept))
        self._last = text

    def has_sample_after(self, at_s: float) -> bool:
        """Tell whether the last look is of that time or later."""
        return bool(self.samples) and self.samples[-1].at_s >= at_s

    def ratio(self, window: Window, log_bytes_per_record: float) -> dict[str, Any]:
        """Return bytes received ÷ bytes of the log that was handled, between two samples in the window."""
        within = [one for one in self.samples if window.at_s[0] <= one.at_s <= window.at_s[-1]]
        if len(within) < 2:
            raise TimeoutError("The client gave its statistics less than twice in the window.")
        first, last = within[0], within[-1]
        received = last.received_bytes - first.received_bytes
        records = window.finished_at(last.at_s) - window.finished_at(first.at_s)
        return {
            "bytes_ratio": received / (max(1.0, records) * log_bytes_per_record),
            # Nearer to the truth where the window is short: what is held has grown or shrunk in it.
            "kept_ratio": received / ((last.kept_records - first.kept_records or 1) * log_bytes_per_record),
            "looks_apart_s": last.at_s - first.at_s,
            # Then the window ended in what had been fetched before: the ratio is too low.
            "ran_dry": self._is_mostly_fetched(),
        }

    def _is_mostly_fetched(self) -> bool:
        topics = json.loads(self._last)["topics"].values()
        partitions = [one for topic in topics for one in topic["partitions"].values() if one["hi_offset"] > 0]
        fetched = sum(one["next_offset"] >= one["hi_offset"] for one in partitions)
        return 2 * fetched >= len(partitions)


def engine_bytes(
    bootstrap: str,
    topic: str,
    seconds: float,
    *,
    log_bytes_per_record: float,
    work: float,
    workers: int = 100,
    stalled: bool = False,
    stalled_partitions: int = 0,
    idle_topic: str | None = None,
) -> dict[str, Any]:
    """The engine under steady back-pressure.

    With `stalled` the head of one partition never ends; with `stalled_partitions` nothing of so many does,
    and what counts begins with the first record. With `idle_topic` another handler waits for its records.
    """
    received, gate = SocketBytes(), threading.Event()
    handle = handler(work)
    options: dict[str, Any] = {"workers": workers + stalled_partitions, "consumer": received.properties()}
    if stalled or stalled_partitions:
        begins = dict.fromkeys(range(stalled_partitions), 0) or {STALLED_PARTITION: STALLED_OFFSET}
        handle = _stalling(handle, gate, begins)
        options["order_by"] = lambda record: b"stalled" if record.partition() in begins else record.key()
    app = make_app(bootstrap, topic, handle, **options)
    if idle_topic is not None:
        app.handler(idle_topic, workers=workers)(handler(work))
    app.start()
    totals = partial(totals_of, cast("Any", app.current_run))  # a snapshot would be measured too
    received.count_received = lambda: totals()["received_records"]
    warm_s = 0.0 if stalled_partitions else FULL_S
    window = watch(lambda: totals()["finished_records"], seconds, warm_s=warm_s)
    counters = app.snapshot().counters
    gate.set()
    stop_now(app)
    ratio = received.ratio(window, log_bytes_per_record)
    return {**window.figures(), **ratio, "pauses": counters["PartitionPaused"]}


def _stalling(
    handle: Callable[[Any], None], gate: threading.Event, begins: Mapping[int, int]
) -> Callable[[Any], None]:
    """Let the named partitions wait from an offset on."""

    def stalling(record: Any) -> None:
        if record.offset() >= begins.get(record.partition(), sys.maxsize):
            gate.wait()
        handle(record)

    return stalling


def engine_bytes_whole(
    bootstrap: str, topic: str, records: int, *, log_bytes_per_record: float, workers: int = 16
) -> dict[str, Any]:
    """The engine with a handler that does nothing, from the first to the last byte of the topic."""
    received = SocketBytes()
    app = make_app(bootstrap, topic, handler(0.0), workers=workers, consumer=received.properties())
    app.start()
    took_s = time_until(app, records)
    ends_s = time.monotonic()
    while not received.has_sample_after(ends_s):
        time.sleep(0.05)
    pauses = app.snapshot().counters["PartitionPaused"]
    stop_now(app)
    return _whole(received.samples[-1].received_bytes, records, took_s, log_bytes_per_record) | {
        "pauses": pauses
    }


def bare_bytes_whole(
    bootstrap: str, topic: str, records: int, *, log_bytes_per_record: float
) -> dict[str, Any]:
    """The bare loop that reads key and offset, from the first to the last byte of the topic."""
    received = SocketBytes()
    consumer = bare_consumer(bootstrap, topic, more=received.properties())
    seen, started_s = 0, None
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if started_s is None and batch:
            mark(BEGIN)
            started_s = time.perf_counter()
        for message in batch:
            message.key()
            message.offset()
        seen += len(batch)
    took_s = time.perf_counter() - (started_s or 0.0)
    mark(END)
    ends_s = time.monotonic()
    while not received.has_sample_after(ends_s):
        consumer.poll(0.05)
    consumer.close()
    return _whole(received.samples[-1].received_bytes, seen, took_s, log_bytes_per_record)


def _whole(received: int, records: int, took_s: float, log_bytes_per_record: float) -> dict[str, Any]:
    return {
        "records": records,
        "records_per_s": records / took_s,
        "bytes_ratio": received / (records * log_bytes_per_record),
    }


def bare_bytes(
    bootstrap: str,
    topic: str,
    seconds: float,
    *,
    log_bytes_per_record: float,
    work: float,
    workers: int = 100,
) -> dict[str, Any]:
    """As many bare threads as workers, under the same back-pressure: no order, nothing tracked, no pause."""
    received, stopped = SocketBytes(), threading.Event()
    consumer = bare_consumer(bootstrap, topic, more=received.properties())
    handle, waiting, handled = handler(work), deque[Any](), [0] * workers

    def run(place: int) -> None:
        while not stopped.is_set():
            try:
                message = waiting.popleft()
            except IndexError:
                time.sleep(0.0005)
                continue
            handle(message)
            handled[place] += 1

    seen = 0
    received.count_received = lambda: seen

    def read() -> None:
        nonlocal seen
        while not stopped.is_set():
            is_full = len(waiting) >= WAITING_RECORDS_MAX
            # Also where it is full, for the statistics: the record that comes with them is one too many.
            messages = consumer.consume(1, 0) if is_full else consumer.consume(BATCH_RECORDS, 0.01)
            waiting.extend(messages)
            seen += len(messages)
            if is_full:
                stopped.wait(0.01)

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(workers)]
    threads.append(threading.Thread(target=read, daemon=True))
    for thread in threads:
        thread.start()
    window = watch(lambda: sum(handled), seconds, warm_s=FULL_S)
    stopped.set()
    for thread in threads:
        thread.join()
    consumer.close()
    return {**window.figures(), **received.ratio(window, log_bytes_per_record)}
