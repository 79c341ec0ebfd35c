"""How the events of the mirror read."""

from __future__ import annotations

from datetime import UTC, datetime

from ehkafka.events.mirror import (
    MirrorBehind,
    MirrorContested,
    MirrorForeign,
    MirrorRecovered,
    MirrorUnavailable,
    MirrorUsed,
    MirrorWritten,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import ended, names
from ehkafka.wording import seconds


@sentence.register
def _(event: MirrorWritten) -> str:
    positions = names(f"{partition} up to {offset}" for partition, offset in event.next_offsets)
    return f"Mirrored {positions} in {seconds(event.took_s)}."


@sentence.register
def _(event: MirrorUnavailable) -> str:
    return (
        f"The mirror cannot be written: {ended(event.error)} Records are handled and committed as before; "
        "the mirror follows when its store answers again."
    )


@sentence.register
def _(event: MirrorRecovered) -> str:
    return (
        f"The mirror in {event.store} is written again, after {event.outage_s:.0f} s and "
        f"{event.failed_attempts} failed attempts."
    )


@sentence.register
def _(event: MirrorContested) -> str:
    ours = "nothing" if event.our_next_offset is None else str(event.our_next_offset)
    return (
        f"The mirror of {event.partition} was written by {event.owner} (up to {event.their_next_offset}) "
        f"while this app had {ours} to write: {event.blob}. Either this process slept and its partition has "
        "a new owner, which ends by itself, or two apps use the same group name and container: give each "
        "its own."
    )


@sentence.register
def _(event: MirrorForeign) -> str:
    return (
        f"{event.blob} {event.reason}. It is left alone, so nothing of {event.partition} is kept there. Give "
        "the mirror a container of its own, or take that blob away."
    )


@sentence.register
def _(event: MirrorUsed) -> str:
    written = datetime.fromtimestamp(event.written_at_ms / 1000, UTC).isoformat(timespec="seconds")
    return (
        f"The group has no committed offset for {event.partition}: it begins at {event.next_offset}, which "
        f"{event.owner or 'an earlier run'} mirrored at {written}. It is the same log, for {event.proof}."
    )


@sentence.register
def _(event: MirrorBehind) -> str:
    return (
        f"The app ends with an older mirror of {names(event.partitions)}: {ended(event.error)} The "
        "group's commits are right; only a start without them would repeat records."
    )
