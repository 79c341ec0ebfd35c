"""The collector: asks apps for their snapshots when Prometheus asks, and puts them as families of samples.

It keeps nothing of its own: what counts is counted in the engine, so that several who scrape see the same,
and one that comes late misses nothing but how long calls took before it was made. Any thread.
"""

from __future__ import annotations

import time
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ehkafka.errors import MissingExtraError
from ehkafka.telemetry.catalogue import ALL, Buckets, Metric
from ehkafka.telemetry.measured import begin_measuring, measured
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric as Family

    from ehkafka.telemetry.catalogue import Value
    from ehkafka.telemetry.measured import Labels, Measured
    from ehkafka.telemetry.snapshot import Snapshot


class Collector:
    """The metrics of an app, or of several with different groups, for a registry of prometheus-client.

    `prometheus_client.REGISTRY.register(Collector(app))`.

    - `app` (required): it may start later. With members it is the supervisor that shows all of them.
    - `*apps`: more of them, with other groups.

    Raises `MissingExtraError` without prometheus-client, `ConfigurationError` for two apps of one group.
    """

    def __init__(self, app: Measured, *apps: Measured) -> None:
        _prometheus()
        self._apps = (app, *apps)
        begin_measuring("Collector", self._apps)

    def describe(self) -> Iterable[Family]:
        """Return the families without samples: a registry refuses a second collector by them."""
        return _Families().made

    def collect(self) -> Iterator[Family]:
        """Yield the families as of now; those without a series are left out."""
        families = _Families()
        for app in self._apps:
            families.add_app(app.snapshot())
        for family in families.made:
            if family.samples:
                # Let workers have the interpreter: making text of families keeps it for 5 ms at a time
                # otherwise, and handlers were late by that.
                time.sleep(0)
                yield family


def exposition(collector: Collector, accept: str = "") -> tuple[bytes, str]:
    """Return what an HTTP server answers a scrape with: the text, and its content type.

    - `collector` (required): it is asked for the metrics of now.
    - `accept` (default `""`): the request's header: a client that asks for OpenMetrics gets that.
    """
    encode, content_type = _prometheus().exposition.choose_encoder(accept)
    return encode(collector), content_type


def _prometheus() -> Any:
    try:
        import prometheus_client  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise MissingExtraError(f"Metrics need prometheus-client: {install('metrics')}") from None
    return prometheus_client


class _Families:
    """One family for each metric of the catalogue, filled app by app."""

    def __init__(self) -> None:
        prometheus = _prometheus()
        self._sample = prometheus.samples.Sample
        self._end_of = prometheus.utils.floatToGoString
        make = prometheus.Metric
        # prometheus-client adds `_total` itself.
        self.made: list[Family] = [
            make(metric.name.removesuffix("_total"), metric.meaning, metric.kind, metric.unit)
            for metric in ALL
        ]
        self._by_name = {metric.name: family for metric, family in zip(ALL, self.made, strict=True)}

    def add_app(self, snapshot: Snapshot) -> None:
        """Add what an app shows; of a supervisor that of each of its members."""
        for metrics, parts in measured(snapshot):
            self._add(metrics, parts)

    def _add(self, metrics: Sequence[Metric[Any]], parts: Sequence[tuple[Labels, Any]]) -> None:
        """Add a sample of each metric for each part."""
        sample = self._sample
        for metric in metrics:
            read, name, samples = metric.read, metric.name, self._by_name[metric.name].samples
            for labels, part in parts:
                value = read(part)
                if isinstance(value, int | float):
                    samples.append(sample(name, labels, value))
                elif value is not None:
                    samples += self._several(metric, labels, value)

    def _several(self, metric: Metric[Any], labels: Labels, value: Value) -> Iterator[Any]:
        """Yield the samples of a value that is more than one number."""
        if isinstance(value, Buckets):
            ends = [*map(self._end_of, metric.buckets), "+Inf"]
            for end, count in zip(ends, accumulate(value.counts), strict=True):
                yield self._sample(f"{metric.name}_bucket", labels | {"le": end}, count)
            yield self._sample(f"{metric.name}_count", labels, sum(value.counts))
            yield self._sample(f"{metric.name}_sum", labels, value.total)
        else:
            by: str = metric.by or ""
            named: Mapping[str, float] = value  # type: ignore[assignment]
            for name, number in named.items():
                yield self._sample(metric.name, labels | {by: name}, number)
