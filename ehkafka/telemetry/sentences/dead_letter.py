"""How the events of dead letters read."""

from __future__ import annotations

from ehkafka.events.dead_letter import DeadLetterFailed, RecordDeadLettered
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import clause, text


@sentence.register
def _(event: RecordDeadLettered) -> str:
    return (
        f"{event.partition}@{event.offset}, key {text(event.key)}, is safe among the dead letters of "
        f"{text(event.to)}."
    )


@sentence.register
def _(event: DeadLetterFailed) -> str:
    then = "its key waits" if event.retry_s is None else f"written again in {event.retry_s:g} s"
    return (
        f"The dead letter of {event.partition}@{event.offset}, key {text(event.key)}, could not be "
        f"written to {text(event.to)}: {clause(event.error)}. Nothing is committed past it; {then}."
    )
