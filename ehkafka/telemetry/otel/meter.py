"""The metrics of the catalogue as instruments of OpenTelemetry, observed whenever a reader collects.

Nothing is kept here: what counts is counted in the engine, and a callback reads it off a snapshot. On the
reader's thread; an error in here is logged by the SDK and fails nothing else.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.errors import MissingExtraError
from ehkafka.telemetry.catalogue import APP, HANDLER, MEMBER, PARTITION, Buckets
from ehkafka.telemetry.measured import begin_measuring, measured
from ehkafka.telemetry.otel import conventions as names
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opentelemetry.metrics import Meter, MeterProvider, Observation

    from ehkafka.telemetry.catalogue import Metric
    from ehkafka.telemetry.measured import Measured, Parts

# A reader asks one instrument after the other, all within less: they share one picture of the app.
FRESH_S: Final = 1.0
# Labels that have a name of their own in the conventions; another one is put behind `ehkafka.`.
ATTRIBUTES: Final = {"group": names.GROUP, "topic": names.DESTINATION, "partition": names.PARTITION}
TABLES: Final[tuple[tuple[Metric[Any], ...], ...]] = (APP, HANDLER, PARTITION, MEMBER)
UNITS: Final = {"seconds": "s", "bytes": "By", "records": "{record}"}


class Instrument(NamedTuple):
    """What a metric is called with OpenTelemetry."""

    name: str
    unit: str


class Metrics:
    """The metrics of an app, or of several with different groups, observed by instruments of OpenTelemetry.

    The same as `ehkafka.metrics.Collector` shows; `docs/reference/metrics.md` says how each is called here.

    - `app` (required): it may start later. With members it is the supervisor that shows all of them.
    - `*apps`: more of them, with other groups.
    - `meter_provider` (default `None`): whose instruments they are. `None`: OpenTelemetry's global one, which
      may be set later.

    Raises `MissingExtraError` without opentelemetry-api, `ConfigurationError` for two apps of one group.
    """

    def __init__(self, app: Measured, *apps: Measured, meter_provider: MeterProvider | None = None) -> None:
        meter, observation = _meter(meter_provider)
        begin_measuring("Metrics", (app, *apps))
        pictures = _Pictures((app, *apps))
        for place, table in enumerate(TABLES):
            for metric in table:
                for instrument, read in _instruments(metric):
                    callback = _callback(pictures, place, instrument.name, metric, read, observation)
                    make = (
                        meter.create_observable_gauge
                        if metric.kind == "gauge"
                        else meter.create_observable_counter
                    )
                    make(instrument.name, [callback], instrument.unit, metric.meaning)


class _Pictures:
    """One picture of the apps for all instruments that one reader collects."""

    def __init__(self, apps: tuple[Measured, ...]) -> None:
        self._apps = apps
        self._both_names = names.wants_both(os.environ)
        # Under the lock: the parts by table, with their attributes; when they were taken; who has them.
        self._lock = threading.Lock()
        self._parts: list[Parts] = []
        self._taken_s = float("-inf")
        self._seen: set[str] = set()

    def parts(self, place: int, instrument: str) -> Parts:
        """Return the parts of one table. An instrument that asks again is asked for another collection."""
        with self._lock:
            now_s = time.monotonic()
            if instrument in self._seen or now_s > self._taken_s + FRESH_S:
                self._parts = self._take()
                self._taken_s = now_s
                self._seen.clear()
            self._seen.add(instrument)
            return self._parts[place]

    def _take(self) -> list[Parts]:
        found: list[Parts] = [[] for _ in TABLES]
        for app in self._apps:
            for own, (_, parts) in zip(found, measured(app.snapshot()), strict=True):
                own += [(self._named(labels), part) for labels, part in parts]
        return found

    def _named(self, labels: Mapping[str, str]) -> Any:
        named: names.Attributes = {ATTRIBUTES.get(one, f"ehkafka.{one}"): labels[one] for one in labels}
        named[names.SYSTEM] = names.KAFKA
        return names.with_old_names(named) if self._both_names else named


def instrument_of(metric: Metric[Any]) -> Instrument:
    """Return the name and unit of what shows a metric.

    As the conventions want it: words that say nothing but the unit, and `_total`, are no part of a name; what
    is counted stands in braces. Bytes are a `size`, since some have records next to them.
    """
    name = metric.name.removesuffix("_total")
    if metric.unit == "seconds":
        name = name.removesuffix("_seconds")
    name = name.removeprefix("ehkafka_")
    if metric.unit in ("bytes", "records"):
        quantity = "size" if metric.unit == "bytes" else "records"
        name = f"{name.removesuffix(f'_{metric.unit}')}.{quantity}"
    last = name.rpartition("_")[2]
    counted = f"{{{last.removesuffix('s')}}}" if last.endswith("s") else "1"
    return Instrument(f"ehkafka.{name}", UNITS.get(metric.unit, counted))


def _instruments(metric: Metric[Any]) -> Iterator[tuple[Instrument, Callable[[Any], object]]]:
    """Yield what shows a metric, and how it is read.

    There is no histogram that is observed: of one, its buckets are a counter with the upper end as an
    attribute, each call counted in one of them, and the sum is another.
    """
    made = instrument_of(metric)
    if metric.kind != "histogram":
        yield made, metric.read
        return

    ends = [*(format(end, "g") for end in metric.buckets), "inf"]

    def calls(part: object) -> Mapping[str, float] | None:
        found = metric.read(part)
        return dict(zip(ends, found.counts, strict=True)) if isinstance(found, Buckets) else None

    def total(part: object) -> float | None:
        found = metric.read(part)
        return found.total if isinstance(found, Buckets) else None

    yield Instrument(f"{made.name}.calls", "{call}"), calls
    yield Instrument(f"{made.name}.time", made.unit), total


def _callback(
    pictures: _Pictures,
    place: int,
    instrument: str,
    metric: Metric[Any],
    read: Callable[[Any], Any],
    observation: type[Observation],
) -> Callable[[Any], Iterable[Observation]]:
    by = "ehkafka.up_to" if metric.kind == "histogram" else f"ehkafka.{metric.by}"

    def observe(_options: object) -> Iterator[Observation]:
        for attributes, part in pictures.parts(place, instrument):
            value = read(part)
            if isinstance(value, int | float):
                # Not a bool: OTLP's numbers are none.
                yield observation(int(value) if isinstance(value, bool) else value, attributes)
            elif value is not None:
                for name, number in value.items():
                    yield observation(number, attributes | {by: name})

    return observe


def _meter(provider: MeterProvider | None) -> tuple[Meter, type[Observation]]:
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        raise MissingExtraError(f"Metrics need opentelemetry-api: {install('otel')}") from None
    return metrics.get_meter("ehkafka", "", provider, names.SCHEMA_URL), metrics.Observation
