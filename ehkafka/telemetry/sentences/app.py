"""How the app's own events read."""

from __future__ import annotations

from ehkafka.events.app import (
    AppStarted,
    AppStopped,
    AppStopping,
    BatchesFinished,
    Draining,
    SettingAdvice,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import abandoned, clause, names, records, text


@sentence.register
def _(event: AppStarted) -> str:
    return f"Consuming {names(event.topics)} in group {text(event.group)}."


@sentence.register
def _(event: SettingAdvice) -> str:
    return (
        f"{text(event.property)}={text(event.value)} is not advised: {clause(event.advice)} "
        f"({text(event.source)})."
    )


@sentence.register
def _(event: AppStopping) -> str:
    how = "with a drain" if event.drain else "without a drain"
    return f"Stopping {how} within {event.deadline_s:g} s: {clause(event.reason)}."


@sentence.register
def _(event: Draining) -> str:
    return f"Draining: {records(event.unfinished_records)} unfinished, {event.remaining_s:.0f} s left."


@sentence.register
def _(event: BatchesFinished) -> str:
    rate = f" ({event.received_records / event.took_s:.0f}/s)" if event.took_s > 0 else ""
    left = "" if event.left_records is None else f"; {event.left_records} left"
    batches = "1 batch" if event.batches == 1 else f"{event.batches} batches"
    return f"Finished {batches} with {records(event.received_records)} in {event.took_s:.1f} s{rate}{left}."


@sentence.register
def _(event: AppStopped) -> str:
    return f"Stopped with exit code {event.exit_code}; {abandoned(event.abandoned_records)}."
