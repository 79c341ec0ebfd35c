"""How the events of dead letters read."""

from __future__ import annotations

from ehkafka.events.dead_letter import (
    DeadLetterFailed,
    DeadLetterProducerPlain,
    DeadLetterProducerReplaced,
    RecordDeadLettered,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import at_place, clause, ended, text
from ehkafka.wording import seconds


@sentence.register
def _(event: RecordDeadLettered) -> str:
    return (
        f"{event.partition}@{event.offset}, key {text(event.key)}, is safe among the dead letters of "
        f"{text(event.to)}."
    )


@sentence.register
def _(event: DeadLetterFailed) -> str:
    then = "its key waits" if not event.retry_s else f"written again in {seconds(event.retry_s)}"
    return (
        f"The dead letter of {event.partition}@{event.offset}, key {text(event.key)}, could not be "
        f"written to {text(event.to)}: {clause(event.error)}{at_place(event)}. "
        f"Nothing is committed past it; {then}."
    )


@sentence.register
def _(event: DeadLetterProducerReplaced) -> str:
    return (
        f"The dead letters' producer is replaced in {seconds(event.wait_s)}: {ended(event.reason)} "
        "Letters that "
        "are not acknowledged are written again by the next one."
    )


@sentence.register
def _(event: DeadLetterProducerPlain) -> str:
    return (
        f"Dead letters are written without a producer id, which this broker does not give: "
        f"{ended(event.reason)} A letter whose acknowledgement is lost may be written twice."
    )
