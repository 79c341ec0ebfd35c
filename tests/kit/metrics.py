"""What a collector shows, by names and labels, for tests of metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.telemetry.prometheus.collector import Collector


class Shown:
    """The samples of a collector, collected anew for each question."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def series(self, name: str, **labels: str) -> list[dict[str, str]]:
        """Return the labels of each series of this name that has these labels."""
        samples = (one for family in self.collector.collect() for one in family.samples)
        return [one.labels for one in samples if one.name == name and labels.items() <= one.labels.items()]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sum over the series of this name that have these labels; None where there is none."""
        samples = (one for family in self.collector.collect() for one in family.samples)
        found = [one.value for one in samples if one.name == name and labels.items() <= one.labels.items()]
        return float(sum(found)) if found else None
