"""Traces and metrics of an app for OpenTelemetry. Needs the extra `[otel]`.

`Tracing(app)` makes spans, `Metrics(app)` shows numbers, both by whatever SDK the program has set up.
`docs/guides/tracing.md` and `docs/reference/metrics.md` name them.
"""

from __future__ import annotations

from ehkafka.telemetry.otel.meter import Metrics
from ehkafka.telemetry.otel.tracing import Tracing

__all__ = ["Metrics", "Tracing"]
