"""How the events of a partition read."""

from __future__ import annotations

from ehkafka.events.partition import (
    LogReplaced,
    OffsetGap,
    ParkedBudgetFull,
    PartitionAssigned,
    PartitionLost,
    PartitionPaused,
    PartitionResumed,
    PartitionRevoked,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import clause, ended, records, returned, text
from ehkafka.wording import seconds

NEW = "new in its topic, so it begins with its log, whatever start= says"


@sentence.register
def _(event: PartitionAssigned) -> str:
    new = f" ({NEW})" if event.is_new else ""
    return f"Assigned {event.partition}, epoch {event.epoch}, read from {text(event.position)}{new}."


@sentence.register
def _(event: PartitionRevoked) -> str:
    committed = "nothing committed" if event.next_offset is None else f"committed up to {event.next_offset}"
    return (
        f"Released {event.partition}, epoch {event.epoch} ({clause(event.reason)}): {committed}; "
        f"{returned(event.returned_records)}."
    )


@sentence.register
def _(event: PartitionLost) -> str:
    return lost(f"{event.partition}, epoch {event.epoch}", event.returned_records)


def lost(what: str, returned_records: int) -> str:
    """Say what the group took away without asking, and of one or many what follows."""
    who = ", perhaps by another member already" if returned_records else ""
    return (
        f"Lost {what}: the group went on without this member, so there was no last commit; "
        f"{returned(returned_records)}{who}. If this repeats, look for a blocked process or network, or "
        "raise session.timeout.ms."
    )


@sentence.register
def _(event: PartitionPaused) -> str:
    longest = "" if event.largest_key is None else f"; key {text(event.largest_key)} has the longest lane"
    return (
        f"Paused {event.partition}: its backlog of {records(event.backlog_records)} and "
        f"{event.backlog_bytes} bytes is over its share{longest}."
    )


@sentence.register
def _(event: PartitionResumed) -> str:
    return f"Resumed {event.partition} after {seconds(event.paused_s)}."


@sentence.register
def _(event: ParkedBudgetFull) -> str:
    action = {
        "pause_partition": "the partition is paused",
        "dead_letter": "that key's records go to the dead letters",
        "stop": "the app stops",
    }
    return (
        f"{event.partition} has {records(event.parked_records)} ({event.parked_bytes} bytes) parked behind "
        f"failing ones, its share of the parked budget; most are of key {text(event.largest_key)}: "
        f"{action.get(event.action, event.action)}."
    )


@sentence.register
def _(event: OffsetGap) -> str:
    log = f"the log holds {event.log_start} to {event.log_end}"
    if event.wanted_offset > event.log_end:
        what = f"lies {event.wanted_offset - event.log_end} beyond the end: {log}, it was cut or made anew"
    elif event.wanted_offset < event.log_start:
        what = f"is gone: {log}"
    else:
        what = f"is another record's now: {log}, it was cut and written again"
    lost = f"{records(event.lost_records)} will not be read" if event.lost_records else "Nothing is skipped"
    step = "stopping" if event.resumed_at is None else f"going on at {event.resumed_at}"
    return (
        f"{event.partition}@{event.wanted_offset} was to be read next and {what}. {lost}; {step} "
        f"(on_out_of_range={text(event.action)})."
    )


@sentence.register
def _(event: LogReplaced) -> str:
    lost = (
        f"{records(event.lost_records)} of it will not be read"
        if event.lost_records
        else "Nothing of it is skipped"
    )
    step = "stopping" if event.resumed_at is None else f"going on at {event.resumed_at}"
    policy = f"{event.option}={text(event.action)}"
    if event.action == "none":
        lost = f"Up to {records(event.lost_records)} of it are skipped"
        policy = (
            "as confluent-kafka does; seek() to where to go on. With contiguous=True or mirror=, and "
            "auto.offset.reset=earliest, it would have begun anew"
        )
    return (
        f"{event.partition} is another log now than the one that position {event.next_offset} belongs to: "
        f"{ended(event.reason)} The topic was deleted and made again; the log holds {event.log_start} to "
        f"{event.log_end}. {lost}; {step} ({policy})."
    )
