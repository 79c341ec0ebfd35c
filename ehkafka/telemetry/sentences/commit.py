"""How the events of commits read."""

from __future__ import annotations

from ehkafka.events.commit import CommitAcknowledged, CommitFailed, CommitPaceBounded
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import clause, names


@sentence.register
def _(event: CommitAcknowledged) -> str:
    positions = names(f"{partition} up to {offset}" for partition, offset in event.next_offsets)
    return f"Committed {positions} in {event.took_s:.3f} s."


@sentence.register
def _(event: CommitFailed) -> str:
    step = (
        "A later commit tries again; until then a restart repeats more records."
        if event.retriable
        else "Trying again does not mend it: see the error for what to change."
    )
    return f"The commit of {names(event.partitions)} failed: {clause(event.error)}. {step}"


@sentence.register
def _(event: CommitPaceBounded) -> str:
    asked = [f"commit_interval_s={event.interval_s:g}"] if event.interval_s < event.spacing_s else []
    if event.every_records is not None:
        asked.append(f"commit_every_records={event.every_records}")
    return (
        f"Commits stay at least {event.spacing_s:g} s apart, which is what Event Hubs takes for a partition: "
        f"{' and '.join(asked)} cannot make them more frequent."
    )
