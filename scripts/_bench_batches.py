"""Measurements of batch handlers: ours, and a loop by hand of one thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import orjson
from _bench_bare import BATCH_RECORDS, bare_consumer
from _bench_engine import new_group, stop_now, time_until
from _bench_marks import BEGIN, END, mark
from _bench_row import BATCH_RECORDS_MAX

import ehkafka

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Work = Literal["nothing", "json"]


def engine_batches(
    bootstrap: str, topic: str, records: int, *, work: Work = "nothing", workers: int = 1
) -> dict[str, Any]:
    """A batch handler of ours, with commits and key order."""
    app = ehkafka.App(group=new_group(), endpoint=ehkafka.Endpoint.kafka(bootstrap), start="earliest")
    app.batch_handler(topic, batch_records_max=BATCH_RECORDS_MAX, workers=workers)(_handler(work))
    app.start()
    took_s = time_until(app, records)
    stop_now(app)
    return {"records": records, "records_per_s": records / took_s}


def bare_batches(bootstrap: str, topic: str, records: int, *, work: Work = "nothing") -> dict[str, Any]:
    """One thread that consumes and handles in turns: no commits, no order but the partition's."""
    consumer, handle = bare_consumer(bootstrap, topic), _handler(work)
    seen, started_s = 0, None
    while seen < records:
        batch = consumer.consume(BATCH_RECORDS, 0) or consumer.consume(1, 0.05)
        if started_s is None and batch:
            mark(BEGIN)
            started_s = time.perf_counter()
        handle(batch)
        seen += len(batch)
    took_s = time.perf_counter() - (started_s or 0.0)
    mark(END)
    consumer.close()
    return {"records": records, "records_per_s": records / took_s}


def _handler(work: Work) -> Callable[[Iterable[Any]], None]:
    return _parse if work == "json" else _nothing


def _nothing(_batch: Iterable[Any]) -> None:
    pass


def _parse(batch: Iterable[Any]) -> None:
    for record in batch:
        orjson.loads(record.value())
