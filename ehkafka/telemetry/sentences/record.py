"""How the events of a record read."""

from __future__ import annotations

from ehkafka.events.record import (
    BatchRaised,
    DeferredAnswerDropped,
    HandlerFailed,
    RecordRetried,
    RecordSkipped,
    RecordsTooOld,
    StaleResult,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import at_place, clause, ended, records, text
from ehkafka.wording import seconds


@sentence.register
def _(event: HandlerFailed) -> str:
    return (
        f"The handler failed on {event.partition}@{event.offset}, key {text(event.key)}, "
        f"attempt {event.attempt}: {clause(event.error)}{at_place(event)}. "
        f"Decision: {ended(event.decision)}"
    )


@sentence.register
def _(event: RecordRetried) -> str:
    return (
        f"Attempt {event.attempt} of {event.partition}@{event.offset}, key {text(event.key)}, failed: "
        f"{clause(event.error)}{at_place(event)}. The next one comes in {seconds(event.after_s)}; its "
        "key waits."
    )


@sentence.register
def _(event: BatchRaised) -> str:
    return (
        f"Batch handler {text(event.handler)} raised for {records(event.records)}: "
        f"{clause(event.error)}{at_place(event)}. They are retried, "
        f"at most {event.next_records_max} at a time, until the one to blame stands alone."
    )


@sentence.register
def _(event: RecordSkipped) -> str:
    return (
        f"Skipped {event.partition}@{event.offset}, key {text(event.key)}, after attempt "
        f"{event.attempt}: {clause(event.reason)}{at_place(event)}."
    )


@sentence.register
def _(event: DeferredAnswerDropped) -> str:
    return (
        f"The answer to {event.partition}@{event.offset}, key {text(event.key)}, attempt {event.attempt}, "
        f"which was deferred, counts for nothing: {ended(event.reason)}"
    )


@sentence.register
def _(event: StaleResult) -> str:
    return (
        f"Dropped the late outcome of {records(event.records)} of {event.partition}: epoch "
        f"{event.epoch} had ended. They will be redelivered; a longer drain or faster handlers avoid it."
    )


@sentence.register
def _(event: RecordsTooOld) -> str:
    return (
        f"Skipped {records(event.records)} of {event.partition}, offsets {event.first_offset} to "
        f"{event.last_offset}: older than max_age={seconds(event.max_age_s)}, the oldest "
        f"{event.oldest_age_s:.0f} s."
    )
