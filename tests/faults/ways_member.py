"""A member of row 35 as a program: records in streams, late lanes or batches, each judged as it comes.

    python ways_member.py --history report.jsonl --bootstrap 127.0.0.1:9092 --group g --topic t \
        --way streams --marks marks --partitions 4 --records 10000

A record's value is its own offset and that of the record before it of its key, which must have been finished
by then, by whichever process. Some records fail once, some are slow, some are deferred. `--history` gets a
line of JSON twice a second: what it finished, and how much of that in the new way. Started by
`tests.kit.processes.MemberProcess`: SIGTERM stops it, and it leaves when its standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ehkafka
from ehkafka.lanes import express_mode, streams
from tests.kit.marks import Marks

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT_S = 0.5
# A record's own offset, and the one of its key before it; -1: none.
VALUE = struct.Struct("<qq")
SLOW_S = 0.03
DEFERRED_S = 0.01


def fails(offset: int) -> bool:
    """Tell whether a record fails at its first attempt."""
    return offset % 997 == 3


def is_slow(offset: int) -> bool:
    """Tell whether a record takes long."""
    return offset % 4_999 == 7


def is_deferred(offset: int) -> bool:
    """Tell whether somebody else ends a record."""
    return offset % 1_999 == 11


class Judge:
    """Looks at each record as it starts, and notes it as it ends. Any thread."""

    def __init__(self, marks: Marks, problems: Path) -> None:
        self._marks = marks
        # Written at once: it outlives a kill.
        self._problems = problems.open("ab", buffering=0)
        self.finished = 0
        # What this process has finished, by partition, since that was assigned.
        self._mine: dict[int, set[int]] = {}

    def assigned(self, partition: ehkafka.TopicPartition) -> None:
        """Begin an epoch."""
        self._mine[partition.partition] = set()

    def started(self, record: ehkafka.Record) -> set[int]:
        """Judge a record's start; return where its end is to be noted."""
        partition, offset = record.partition(), record.offset()
        own, before = VALUE.unpack(record.value())
        mine = self._mine[partition]
        if own != offset:
            self.problem(f"{partition}@{offset} has the value of {own}")
        if before >= 0 and not self._marks.has(partition, before):
            self.problem(f"{partition}@{offset} starts, and {before} of its key has not ended")
        if offset in mine:
            self.problem(f"{partition}@{offset} starts again, and has ended in its epoch")
        return mine

    def ended(self, record: ehkafka.Record, mine: set[int]) -> None:
        """Note that a record has finished."""
        offset = record.offset()
        mine.add(offset)
        self._marks.add(record.partition(), offset)
        self.finished += 1

    def problem(self, what: str) -> None:
        """Note what must not be."""
        self._problems.write(f"{os.getpid()}: {what}\n".encode())


def must_fail(record: ehkafka.Record) -> bool:
    """Tell whether an attempt fails."""
    return record.attempt == 1 and fails(record.offset())


def add_handler(app: ehkafka.App, way: str, topic: str, judge: Judge) -> None:
    """Register the handler for one way."""
    retry = ehkafka.Retry(attempts=3, first_s=0.05)

    def later(record: ehkafka.Record, mine: set[int]) -> None:
        token = record.defer()

        def answer() -> None:
            judge.ended(record, mine)
            token.finish()

        threading.Timer(DEFERRED_S, answer).start()

    def handle(record: ehkafka.Record) -> None:
        mine = judge.started(record)
        offset = record.offset()
        time.sleep(SLOW_S if is_slow(offset) else 1e-4 * (1 + offset % 10))
        if must_fail(record):
            raise ValueError("not yet")
        if is_deferred(offset):
            later(record, mine)
        else:
            judge.ended(record, mine)

    async def handle_async(record: ehkafka.Record) -> None:
        mine = judge.started(record)
        offset = record.offset()
        if offset % 4:
            await asyncio.sleep(SLOW_S if is_slow(offset) else 1e-3 * (offset % 2))
        if must_fail(record):
            raise ValueError("not yet")
        if is_deferred(offset):
            later(record, mine)
        else:
            judge.ended(record, mine)

    def handle_batch(batch: ehkafka.Batch) -> None:
        # Before any of them has ended: all of a batch that raises come again.
        if any(must_fail(record) and record.offset() % 2 for record in batch):
            raise ValueError("somebody in here fails")
        failed = set()
        for record in batch:
            # Records of a key may be in one batch: each is judged when the one before it has ended.
            lane = record.partition(), record.key()
            if lane in failed:
                continue
            if must_fail(record):
                failed.add(lane)
                batch.fail(record, ValueError("not yet"))
                continue
            mine = judge.started(record)
            if is_slow(record.offset()):
                time.sleep(SLOW_S)
            judge.ended(record, mine)

    if way == "late-lanes":
        app.handler(topic, workers=300, retry=retry)(handle_async)
    elif way == "batches":
        app.batch_handler(topic, batch_records_max=100, wait_s_max=0.05, workers=4, retry=retry)(handle_batch)
    else:
        app.handler(topic, workers=50, retry=retry)(handle)


def counter(app: Any, way: str) -> Callable[[], int]:
    """Return what counts the records that went the way that is to be proved. Before the app starts."""
    if way != "late-lanes":
        return lambda: sum(route.dispatcher.chunk_records for route in app._runtime._routes)
    taken = [0]
    from ehkafka.lanes.late import LateLanes  # noqa: PLC0415 - of this way alone

    take = LateLanes.take

    def counted(late: LateLanes, lanes_max: int) -> list[Any]:
        lanes = take(late, lanes_max)
        taken[0] += len(lanes)
        return lanes

    LateLanes.take = counted  # type: ignore[method-assign]
    return lambda: taken[0]


def main() -> int:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("history", "bootstrap", "group", "topic", "way", "marks"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("partitions", "records"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--consumer", action="append", default=[])
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    threading.Thread(target=leave_with_parent, name="parent-watch", daemon=True).start()
    # Whatever a record takes where others use the CPU, too.
    streams.QUICK_S = streams.SLOW_S = 1.0
    if options.way == "batches":
        express_mode.QUICK_S = express_mode.SLOW_S = 1e-3
    marks = Marks(Path(options.marks), options.partitions, options.records)
    judge = Judge(marks, Path(f"{options.marks}.problems"))
    app = ehkafka.App(
        group=options.group,
        endpoint=ehkafka.Endpoint.kafka(options.bootstrap),
        start="earliest",
        commit_interval_s=0.5,
        consumer=dict(pair.split("=", 1) for pair in options.consumer),
    )
    app.on_assigned(judge.assigned)
    count = counter(app, options.way)
    add_handler(app, options.way, options.topic, judge)
    app.on_start(lambda: threading.Thread(target=report, name="report", daemon=True).start())

    def report() -> None:
        with Path(options.history).open("a") as lines:
            while True:
                time.sleep(REPORT_S)
                lines.write(json.dumps({"finished": judge.finished, "in_way": count()}) + "\n")
                lines.flush()

    try:
        app.run()
    except ehkafka.EhkafkaError as error:
        logging.getLogger("member").exception("ended by an error")
        return error.exit_code
    return 0


def leave_with_parent() -> None:
    """Leave at once when whoever started this is gone."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
