"""Consumers under OpenTelemetry's own instrumentation of confluent-kafka: its spans survive the new import.

That one replaces `confluent_kafka.Consumer`, before the program is imported, by a class on top of it. Here it
gets the same place on top of the drop-in, below the program's own classes.
"""

from __future__ import annotations

import functools
from typing import Any

import confluent_kafka


def instrumented(kind: Any, drop_in: Any) -> Any:
    """Return the class to make instead of this one, which is `drop_in` or a class of it; mostly itself."""
    spans: Any = vars(confluent_kafka)["Consumer"]  # the one of its `cimpl`, or what stands in its place
    if not spans.__module__.startswith("opentelemetry.") or issubclass(kind, spans):
        return kind
    return _with(spans, kind, drop_in)


@functools.cache
def _with(spans: Any, kind: Any, drop_in: Any) -> Any:
    between = type(drop_in.__name__, (spans, drop_in), {"__module__": drop_in.__module__})
    return (
        between if kind is drop_in else type(kind.__name__, (kind, between), {"__module__": kind.__module__})
    )
