"""Traces of an app for OpenTelemetry. Needs the extra `[otel]`: `pip install 'ehkafka[otel]'`.

`Tracing(app)` makes spans by whatever SDK the program has set up. `docs/tracing.md` shows them.
"""

from __future__ import annotations

from ehkafka.telemetry.otel.tracing import Tracing

__all__ = ["Tracing"]
