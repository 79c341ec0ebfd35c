"""How the app's own events read."""

from __future__ import annotations

from ehkafka.events.app import (
    AppStarted,
    AppStopped,
    AppStopping,
    BatchesFinished,
    Draining,
    GroupReset,
    GroupWatched,
    RecordsLeft,
    SettingAdvice,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import clause, ended, names, records, returned, text
from ehkafka.wording import counted, seconds

_FINISHED = {
    "started": "what is started, and what lies below it if that fits",
    "all": "all that was received",
    "running": "what runs now",
}


@sentence.register
def _(event: AppStarted) -> str:
    return f"Consuming {names(event.topics)} in group {text(event.group)}."


@sentence.register
def _(event: GroupWatched) -> str:
    return (
        f"Watching the commits of group {text(event.group)} for {seconds(event.watch_s)} before it is reset: "
        "Event Hubs may not tell whether it has members. The app starts afterwards."
    )


@sentence.register
def _(event: GroupReset) -> str:
    once = "" if event.once_as is None else f", once under the name {text(event.once_as)}"
    return (
        f"Group {text(event.group)} was reset to start= in all of its "
        f"{counted(event.partitions, 'partition')} of "
        f"{names(event.topics)}{once}."
    )


@sentence.register
def _(event: SettingAdvice) -> str:
    return (
        f"{text(event.property)}={text(event.value)} is not advised: {clause(event.advice)} "
        f"({text(event.source)})."
    )


@sentence.register
def _(event: AppStopping) -> str:
    return (
        f"Stopping within {seconds(event.deadline_s)}, to finish {_FINISHED[event.drain]}: "
        f"{ended(event.reason)}"
    )


@sentence.register
def _(event: Draining) -> str:
    return f"Draining: {records(event.unfinished_records)} unfinished, {event.remaining_s:.0f} s left."


@sentence.register
def _(event: BatchesFinished) -> str:
    rate = f" ({event.received_records / event.took_s:.0f}/s)" if event.took_s > 0 else ""
    left = "" if event.left_records is None else f"; {event.left_records} left"
    batches = counted(event.batches, "batch", "batches")
    return (
        f"Finished {batches} with {records(event.received_records)} in {seconds(event.took_s)}{rate}{left}."
    )


@sentence.register
def _(event: RecordsLeft) -> str:
    left = []
    if event.never_started_records:
        left.append(f"{records(event.never_started_records)} never started")
    if event.waiting_keys:
        keys = "1 key that waits" if event.waiting_keys == 1 else f"{event.waiting_keys} keys that wait"
        left.append(f"{keys}: {names(event.waiting)}")
    again = "nothing finished is handled again"
    if event.repeated_without_metadata:
        again = (
            f"a client that does not read ehkafka's commit metadata would repeat up to "
            f"{records(event.repeated_without_metadata)}, ehkafka does not"
        )
    return f"Left for the next owner: {'; '.join(left) or 'nothing'}. Of what was finished: {again}."


@sentence.register
def _(event: AppStopped) -> str:
    return f"Stopped with exit code {event.exit_code}; {returned(event.returned_records)}."
