"""Measurements of throughput with ehkafka: an app works off a topic that was filled before."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from _bench_handlers import async_handler, handler
from _bench_marks import BEGIN, END, mark
from _bench_observed import observe

import ehkafka
from ehkafka.recovery.policy import DeadLetter, Skip
from ehkafka.recovery.retry import Retry
from ehkafka.run.observation import totals_of
from ehkafka.settings import PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["threads", "asyncio", "processes"]


def engine(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    work: str | float = 0.0,
    kind: Kind = "threads",
    workers: int = 16,
    raw: bool = False,
    event_hubs: bool = False,
    letters_to: str | None = None,
    observed: bool = False,
    after: int = 0,
) -> dict[str, Any]:
    """The engine with a handler of `_bench_handlers`; counts from the finished record number `after` on.

    With `letters_to` it has a retry and a dead-letter topic, which nothing ever needs.
    """
    options: dict[str, Any] = {"workers": workers, "raw": raw}
    if kind == "processes":
        options["workers"] = ehkafka.Processes(os.cpu_count())
    if letters_to is not None:
        options |= {"retry": Retry(attempts=5), "on_failure": DeadLetter(letters_to)}
    handle = async_handler(work) if kind == "asyncio" else handler(work)
    app = make_app(bootstrap, topic, handle, event_hubs=event_hubs, observed=observed, **options)
    app.start()
    took_s = time_until(app, records, after=after)
    stop_now(app)
    done = app.snapshot()
    assert done.finished_records >= records, done
    return {
        "records": records - after,
        "records_per_s": (records - after) / took_s,
        "commits": done.counters["CommitAcknowledged"],
        "pauses": done.counters["PartitionPaused"],
    }


def engine_poisoned(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    work: float,
    workers: int,
    poison_every: int,
    retry_s: float,
    parked_records_max: int,
) -> dict[str, Any]:
    """Healthy throughput while one record in `poison_every` (0: none) fails, waits `retry_s`, fails for good.

    Its key waits with it, parked. Counts until `records` healthy ones are finished, which is less than the
    topic holds: the last poison's wait is no throughput.
    """
    sleep = handler(work)

    def handle(record: Any) -> None:
        if poison_every and int(record.value()[:12]) % poison_every == 0:
            raise ValueError("poison")
        sleep(record)

    app = make_app(
        bootstrap,
        topic,
        handle,
        workers=workers,
        retry=Retry(attempts=2, first_s=retry_s, max_s=retry_s),
        on_failure=Skip(),
        parked_records_max=parked_records_max,
    )
    app.start()
    parked = 0

    def check() -> None:
        nonlocal parked
        parked = max(parked, app.snapshot().parked_records)

    took_s = time_until(app, records, check)
    counters = app.snapshot().counters
    stop_now(app)
    return {
        "records": records,
        "records_per_s": records / took_s,
        "parked_records": parked,
        "parked_records_max": parked_records_max,
        "budget_was_full": counters["ParkedBudgetFull"],
        "retries": counters["RecordRetried"],
    }


def stop_now(app: ehkafka.App) -> None:
    """Stop with what runs; the topic may hold far more than was to be measured.

    A benchmark's group has no successor: finished records that do not fit into a commit are no loss to it.
    """
    with contextlib.suppress(ehkafka.errors.UnfinishedError):
        app.stop(drain="running")


# Settings of the app among the options of a measurement, besides those that end with `_max`.
SETTINGS = {*PROPERTIES, "exactly_once"}


def make_app(
    bootstrap: str,
    topic: str,
    handle: Callable[[Any], Any],
    *,
    start: str = "earliest",
    group: str | None = None,
    event_hubs: bool = False,
    observed: bool = False,
    **options: Any,
) -> ehkafka.App:
    """Return an app with one handler; `options` are the handler's, and settings of the app."""
    endpoint = ehkafka.Endpoint.kafka(bootstrap)
    if event_hubs:  # the same broker, with the precautions of Event Hubs
        endpoint = dataclasses.replace(endpoint, kind="event-hubs")
    settings = {
        name: options.pop(name) for name in tuple(options) if name.endswith("_max") or name in SETTINGS
    }
    app = ehkafka.App(group=group or new_group(), endpoint=endpoint, start=start, **settings)
    app.handler(topic, **options)(handle)
    if observed:
        observe(app)
    return app


def new_group() -> str:
    """Return a group that has no commits."""
    return f"bench-{uuid.uuid4()}"


def time_until(
    app: ehkafka.App,
    records: int,
    check: Callable[[], None] = lambda: None,
    *,
    done: Callable[[], int] | None = None,
    after: int = 0,
) -> float:
    """Return the seconds from the first record received to the last one finished; mark both.

    `done` returns how many count as finished, if not those that have an outcome. With `after` the time
    begins once so many have finished.
    """
    # Cheaper than a snapshot, which would be measured too.
    counts = partial(totals_of, cast("Any", app.current_run))
    done = done or (lambda: counts()["finished_records"])
    while counts()["received_records"] == 0 or done() < after:
        time.sleep(0.001)
    mark(BEGIN)
    started_s = time.perf_counter()
    while done() < records:
        if app.state != "running":
            app.stop()
        check()
        time.sleep(0.002)
    took_s = time.perf_counter() - started_s
    mark(END)
    return took_s
