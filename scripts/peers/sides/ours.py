"""ehkafka, this checkout, as its own pages describe it.

Modes: handlers on threads, as tasks, in processes; batch handlers. All keep the order of each key, and the
engine commits. Settings: `workers` as the work asks (docs/guides/handlers.md); nothing else is changed,
except, for outputs, the producer's, which every side that sends has.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import orjson
from protocol import HOT_KEY, POISON, Options, Report
from reading import Reading  # noqa: TC002 - what a handler gets is read from its annotations

import ehkafka
from ehkafka.recovery.policy import Skip
from ehkafka.recovery.retry import Retry
from ehkafka.run.observation import totals_of
from ehkafka.run.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Callable

SENDING = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000}
# Of which a record needs two.
POISON_ATTEMPTS = 3


def main() -> None:
    """Do the work that the options name until the side is to end."""
    options, report = Options.from_arguments(), Report()
    settings: dict[str, Any] = {}
    if options.output_topic:
        settings["producer"] = SENDING
    if options.work == "exactly_once":
        settings["exactly_once"] = True
    app = ehkafka.App(
        group=options.group, endpoint=ehkafka.Endpoint.kafka(options.bootstrap), start="earliest", **settings
    )
    if options.mode == "batches":
        register_batches(app, options)
    else:
        register(app, options, report)
    app.start()
    if options.work not in ("hot", "poison"):
        report.count_by(Finished(app).count)
    report.ready()
    report.wait()
    # Its group has no successor.
    with contextlib.suppress(ehkafka.errors.UnfinishedError):
        app.stop(drain="running")


def register(app: ehkafka.App, options: Options, report: Report) -> None:
    """Give the app a handler of one record."""
    more: dict[str, Any] = {"workers": options.workers}
    if options.kind == "processes":
        more["workers"] = ehkafka.Processes(options.workers)
    if options.output_topic:
        more["to"] = options.output_topic
    if options.work == "poison":
        more |= {
            "retry": Retry(attempts=POISON_ATTEMPTS, first_s=options.retry_s, max_s=options.retry_s),
            "on_failure": Skip(),
        }
    handle = _async_handler(options, report) if options.kind == "tasks" else _handler(options, report)
    app.handler(options.topic, **more)(handle)


def register_batches(app: ehkafka.App, options: Options) -> None:
    """Give the app a handler of batches."""
    parses = "json" in (options.work, options.decode)

    def nothing(_batch: Any) -> None:
        pass

    def parse(batch: Any) -> None:
        for record in batch:
            orjson.loads(record.value())

    app.batch_handler(options.topic, batch_records_max=options.batch_records, workers=options.workers)(
        parse if parses else nothing
    )


def _handler(options: Options, report: Report) -> Callable[..., Any]:
    sleep, draw_s, hot_s = time.sleep, options.sleep_s(), options.hot_ms / 1e3

    def sleep_by_key(record: ehkafka.Record) -> None:
        if record.key() == HOT_KEY:
            sleep(hot_s)
            return
        report.age(record.value())
        sleep(draw_s())
        tick()

    def fail_once(record: ehkafka.Record) -> None:
        sleep(draw_s())
        if not is_poison(record):
            tick()

    if options.work in ("hot", "poison"):
        tick = report.ticker()
    if options.work == "poison":
        is_poison = _poison(report)
    return {
        **_PLAIN,
        "latency": lambda record: report.age(record.value()),
        "hot": sleep_by_key,
        "poison": fail_once,
        "sleep": lambda _record: sleep(draw_s()),
    }[options.work]


def _async_handler(options: Options, report: Report) -> Callable[..., Any]:
    sleep, draw_s, hot_s = asyncio.sleep, options.sleep_s(), options.hot_ms / 1e3

    async def do_nothing(_record: ehkafka.Record) -> None:
        pass

    async def parse_value(record: ehkafka.Record) -> None:
        orjson.loads(record.value())

    async def note_age(record: ehkafka.Record) -> None:
        report.age(record.value())

    async def sleep_for(_record: ehkafka.Record) -> None:
        await sleep(draw_s())

    async def sleep_by_key(record: ehkafka.Record) -> None:
        if record.key() == HOT_KEY:
            await sleep(hot_s)
            return
        report.age(record.value())
        await sleep(draw_s())
        tick()

    async def fail_once(record: ehkafka.Record) -> None:
        await sleep(draw_s())
        if not is_poison(record):
            tick()

    if options.work in ("hot", "poison"):
        tick = report.ticker()
    if options.work == "poison":
        is_poison = _poison(report)
    return {
        "noop": do_nothing,
        "json": parse_value,
        "latency": note_age,
        "sleep": sleep_for,
        "hot": sleep_by_key,
        "poison": fail_once,
    }[options.work]


def _poison(report: Report) -> Callable[[ehkafka.Record], bool]:
    """Return a function that raises at a poison record's first attempt, and returns whether it is one."""
    seen: set[tuple[int, int]] = set()
    tick = report.ticker(failed=True)

    def is_poison(record: ehkafka.Record) -> bool:
        if not record.value().startswith(POISON):
            return False
        place = record.partition(), record.offset()
        if place not in seen:
            seen.add(place)
            tick()
            raise ValueError("poison")
        return True

    return is_poison


# Functions at the top level: worker processes import them.
def nothing(_record: ehkafka.Record) -> None:
    """Do nothing."""


def parse(record: ehkafka.Record) -> None:
    """Read the value as JSON."""
    orjson.loads(record.value())


def take(reading: Reading) -> None:
    """Take a decoded value."""


def send_on(record: ehkafka.Record) -> bytes | None:
    """Return the value as an output, which has the record's key."""
    return record.value()


_PLAIN: dict[str, Callable[..., Any]] = {
    "noop": nothing,
    "json": parse,
    "typed": take,
    "output": send_on,
    "exactly_once": send_on,
}


class Finished:
    """How many records are finished, with their outputs acknowledged; never fewer than at the last look."""

    def __init__(self, app: ehkafka.App) -> None:
        self._app = app
        self._most = 0

    def count(self) -> int:
        """Return it, or a little less."""
        runtime = self._app.current_run  # cheaper than a snapshot, which would be measured too
        if isinstance(runtime, Runtime):
            # In this order: an output that is put in between makes it too few, never too many.
            finished: int = totals_of(runtime)["finished_records"]
            delivery = runtime.context.delivery
            missing = 0 if delivery is None else delivery.outputs.count()
            self._most = max(self._most, finished - missing)
        return self._most


if __name__ == "__main__":
    main()
