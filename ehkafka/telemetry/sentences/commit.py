"""How the events of commits read."""

from __future__ import annotations

from ehkafka.events.commit import (
    CommitAcknowledged,
    CommitFailed,
    CommitPaceBounded,
    ProgressIgnored,
    ProgressRestored,
    ProgressTruncated,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import ended, names
from ehkafka.wording import counted, seconds


@sentence.register
def _(event: CommitAcknowledged) -> str:
    positions = names(f"{partition} up to {offset}" for partition, offset in event.next_offsets)
    return f"Committed {positions} in {seconds(event.took_s)}."


@sentence.register
def _(event: CommitFailed) -> str:
    step = (
        "A later commit tries again; until then a restart repeats more records."
        if event.retriable
        else "Trying again does not help: see the error for what to change."
    )
    return f"The commit of {names(event.partitions)} failed: {ended(event.error)} {step}"


@sentence.register
def _(event: CommitPaceBounded) -> str:
    asked = [f"commit_interval_s={event.interval_s:g}"] if event.interval_s < event.spacing_s else []
    if event.every_records is not None:
        asked.append(f"commit_every_records={event.every_records}")
    return (
        f"Commits stay at least {seconds(event.spacing_s)} apart, which is what Event Hubs takes for a "
        "partition: "
        f"{' and '.join(asked)} cannot make them more frequent."
    )


@sentence.register
def _(event: ProgressTruncated) -> str:
    return (
        f"{event.partition}: of the offsets finished above the commit {event.dropped_offsets} do not fit "
        f"into its metadata of {event.bytes_max} bytes ({event.kept_offsets} do). They are handled again "
        "after a crash, unless the commit has passed them by then."
    )


@sentence.register
def _(event: ProgressRestored) -> str:
    return (
        f"{event.partition}, epoch {event.epoch}: {counted(event.finished_offsets, 'offset')} above "
        f"{event.next_offset} "
        f"({event.ranges} ranges) were finished before and are not handled again, as {event.source} says."
    )


@sentence.register
def _(event: ProgressIgnored) -> str:
    return (
        f"{event.partition}: what {event.source} says of offsets finished above {event.next_offset} is "
        f"ignored: {ended(event.reason)} Nothing is skipped; some records may be handled again."
    )
