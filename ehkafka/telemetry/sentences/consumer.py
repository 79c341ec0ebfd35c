"""How the events of the drop-in consumer read."""

from __future__ import annotations

from ehkafka.events.consumer import DropInDeviated, MarksMissing
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import records


@sentence.register
def _(event: DropInDeviated) -> str:
    return (
        f"This consumer is not confluent-kafka's: {event.text}. "
        f"Consumer(as_confluent={{{event.deviation!r}}}) switches this off."
    )


@sentence.register
def _(event: MarksMissing) -> str:
    return (
        f"{event.partition} is paused: {records(event.unmarked_records)} were delivered and not marked, the "
        f"oldest at offset {event.oldest_offset}, and for {event.quiet_s:.0f} s none was. Call "
        "store_offsets(message) or commit(message) for every record that is done, failed ones included."
    )
