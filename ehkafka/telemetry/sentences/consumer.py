"""How the events of the drop-in consumer read."""

from __future__ import annotations

from ehkafka.events.consumer import DropInDeviated
from ehkafka.telemetry.sentences.dispatch import sentence


@sentence.register
def _(event: DropInDeviated) -> str:
    return (
        f"This consumer is not confluent-kafka's: {event.text}. "
        f"Consumer(as_confluent={{{event.deviation!r}}}) switches this off."
    )
