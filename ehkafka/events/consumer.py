"""What the drop-in consumer tells."""

from __future__ import annotations

from dataclasses import dataclass

from ehkafka.events.event import Event


@dataclass(frozen=True, slots=True)
class DropInDeviated(Event):
    """The drop-in consumer does something in its own way; told once per consumer and `deviation`."""

    deviation: str
    text: str
