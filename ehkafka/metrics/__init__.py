"""Metrics of an app for Prometheus. Needs the extra `[metrics]`.

`Collector` goes into a program's own registry, `exposition` is the text for a server that has none.
`docs/reference/metrics.md` names every metric.
"""

from __future__ import annotations

from ehkafka.telemetry.prometheus.collector import Collector, exposition

__all__ = ["Collector", "exposition"]
