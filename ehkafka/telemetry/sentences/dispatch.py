"""From a kind of event to its sentence. The sentences register themselves here."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.events import Event


@singledispatch
def sentence(event: Event) -> str:
    """Say an event in one sentence. Raises `NotImplementedError` for a kind that has none."""
    raise NotImplementedError(f"{type(event).__name__} has no sentence; write one in telemetry/sentences/")
