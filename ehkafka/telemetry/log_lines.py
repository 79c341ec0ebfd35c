"""Log lines: one readable sentence for each kind of event, repeated warnings thinned.

`LogLines` belongs to the telemetry thread and is used there alone, so it has no lock. It may raise or
block with the handlers of the user's logging; the event bus is prepared for both. It never counts
events (the bus has done so before) and never shows a record's value or headers.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import singledispatch
from typing import TYPE_CHECKING

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.rebalance_lines import GATHER_S, Gathered, fields_of_many, sentence_of_many
from ehkafka.telemetry.thinning import WINDOW_S, Thinning
from ehkafka.telemetry.wording import abandoned as _abandoned
from ehkafka.telemetry.wording import clause as _clause
from ehkafka.telemetry.wording import names as _names
from ehkafka.telemetry.wording import records as _records
from ehkafka.telemetry.wording import text as _text

if TYPE_CHECKING:
    from collections.abc import Callable


class LogLines:
    """Writes events to a logger, repeated warnings at most once per window and subject.

    What is suppressed is never lost without a word: the next line of its subject says how many were,
    and if no event brings that line, `write_owed` does, with the last suppressed one.
    """

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float]) -> None:
        self._logger = logger
        self._now_s = now_s
        self._thinning = Thinning()
        self._gathered = Gathered()

    @property
    def owes_lines(self) -> bool:
        """Whether suppressed warnings wait for `write_owed`."""
        return self._thinning.suppressed > 0

    @property
    def gathered_events(self) -> int:
        """How many events wait for the line that they share."""
        return len(self._gathered)

    @property
    def patience_s(self) -> float | None:
        """How long `write_owed` may be waited for if no event comes; None: for ever."""
        if self._gathered:
            return GATHER_S
        return WINDOW_S if self.owes_lines else None

    def write(self, event: events.Event) -> None:
        """Log an event at its level, unless it repeats a warning of the current window.

        The partitions of one assignment share a line, written with the next other event or `write_owed`.
        """
        takes = self._gathered.takes(event)
        if self._gathered and not takes:
            self._write_gathered()
            takes = self._gathered.takes(event)
        if not self._logger.isEnabledFor(event.level):
            pass
        elif takes:
            self._gathered.add(event)
        elif (suppressed := self._thinning.admit(event, self._now_s())) is not None:
            self._log(event, suppressed)
        self._write_suppressed()

    def write_owed(self, *, everything: bool = False) -> None:
        """Log what was gathered, and of each subject whose window is over, or of all, the last warning."""
        self._write_gathered()
        self._write_suppressed(everything=everything)

    def _write_suppressed(self, *, everything: bool = False) -> None:
        for event, suppressed in self._thinning.owed(None if everything else self._now_s()):
            self._log(event, suppressed)

    def _write_gathered(self) -> None:
        gathered = self._gathered.take()
        if len(gathered) > 1:
            extra = fields_of_many(gathered) | {"suppressed": 0}
            self._logger.log(gathered[0].level, sentence_of_many(gathered), extra=extra)
        elif gathered:
            self._log(gathered[0], 0)

    def _log(self, event: events.Event, suppressed: int) -> None:
        line = sentence(event)
        if suppressed:
            line += f" ({suppressed} more like it since the last such line.)"
        if isinstance(event, events.StuckReport):
            line += f"\n{event.stacks}"
        elif isinstance(event, events.AttemptOverdue):
            line += f"\n{event.stack}"
        self._logger.log(event.level, line, extra=fields(event) | {"suppressed": suppressed})


@singledispatch
def sentence(event: events.Event) -> str:
    """Say an event in one sentence. Raises `NotImplementedError` for a kind that has none."""
    raise NotImplementedError(f"{type(event).__name__} has no sentence; write one in telemetry/log_lines.py")


def fields(event: events.Event) -> dict[str, object]:
    """Return an event's fields for structured loggers: `event` is its kind, the rest is JSON-ready.

    A partition becomes `topic` and `partition`; within a sequence it is named as `topic[partition]`.
    """
    named: dict[str, object] = {"event": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, TopicPartition):
            named |= value._asdict()
        else:
            named[field.name] = _plain(value)
    return named


@sentence.register
def _(event: events.AppStarted) -> str:
    return f"Consuming {_names(event.topics)} in group {_text(event.group)}."


@sentence.register
def _(event: events.SettingAdvice) -> str:
    return (
        f"{_text(event.property)}={_text(event.value)} is not advised: {_clause(event.advice)} "
        f"({_text(event.source)})."
    )


@sentence.register
def _(event: events.AppStopping) -> str:
    how = "with a drain" if event.drain else "without a drain"
    return f"Stopping {how} within {event.deadline_s:g} s: {_clause(event.reason)}."


@sentence.register
def _(event: events.Draining) -> str:
    return f"Draining: {_records(event.unfinished_records)} unfinished, {event.remaining_s:.0f} s left."


@sentence.register
def _(event: events.AppStopped) -> str:
    return f"Stopped with exit code {event.exit_code}; {_abandoned(event.abandoned_records)}."


@sentence.register
def _(event: events.PartitionAssigned) -> str:
    return f"Assigned {event.partition}, epoch {event.epoch}, read from {_text(event.position)}."


@sentence.register
def _(event: events.PartitionRevoked) -> str:
    committed = "nothing committed" if event.next_offset is None else f"committed up to {event.next_offset}"
    return (
        f"Gave back {event.partition}, epoch {event.epoch} ({_clause(event.reason)}): {committed}; "
        f"{_abandoned(event.abandoned_records)}."
    )


@sentence.register
def _(event: events.PartitionLost) -> str:
    return (
        f"Lost {event.partition}, epoch {event.epoch}, without a last commit; "
        f"{_abandoned(event.abandoned_records)}, perhaps by another member already. "
        f"If this repeats, look for a blocked process or network, or raise session.timeout.ms."
    )


@sentence.register
def _(event: events.PartitionPaused) -> str:
    longest = "" if event.largest_key is None else f"; key {_text(event.largest_key)} has the longest lane"
    return (
        f"Paused {event.partition}: its backlog of {_records(event.backlog_records)} and "
        f"{event.backlog_bytes} bytes is over its share{longest}."
    )


@sentence.register
def _(event: events.PartitionResumed) -> str:
    return f"Resumed {event.partition} after {event.paused_s:.3f} s."


@sentence.register
def _(event: events.CommitAcknowledged) -> str:
    positions = _names(f"{partition} up to {offset}" for partition, offset in event.next_offsets)
    return f"Committed {positions} in {event.took_s:.3f} s."


@sentence.register
def _(event: events.CommitFailed) -> str:
    step = (
        "A later commit tries again; until then a restart repeats more records."
        if event.retriable
        else "Trying again does not mend it: see the error for what to change."
    )
    return f"The commit of {_names(event.partitions)} failed: {_clause(event.error)}. {step}"


@sentence.register
def _(event: events.CommitPaceBounded) -> str:
    asked = [f"commit_interval_s={event.interval_s:g}"] if event.interval_s < event.spacing_s else []
    if event.every_records is not None:
        asked.append(f"commit_every_records={event.every_records}")
    return (
        f"Commits stay at least {event.spacing_s:g} s apart, which is what Event Hubs takes for a partition: "
        f"{' and '.join(asked)} cannot make them more frequent."
    )


@sentence.register
def _(event: events.Throttled) -> str:
    return (
        f"Throttled: {_text(event.broker)} holds answers back by {event.throttle_s:.3f} s. If it lasts, "
        f"raise the quota (on Event Hubs: throughput units) or read and commit less."
    )


@sentence.register
def _(event: events.HandlerFailed) -> str:
    return (
        f"The handler failed on {event.partition}@{event.offset}, key {_text(event.key)}, "
        f"attempt {event.attempt}: {_clause(event.error)}. Decision: {_clause(event.decision)}."
    )


@sentence.register
def _(event: events.RecordRetried) -> str:
    return (
        f"Attempt {event.attempt} of {event.partition}@{event.offset}, key {_text(event.key)}, failed: "
        f"{_clause(event.error)}. The next one comes in {event.after_s:.3g} s; its key waits."
    )


@sentence.register
def _(event: events.BatchRaised) -> str:
    return (
        f"Batch handler {_text(event.handler)} raised for {_records(event.records)}: {_clause(event.error)}. "
        f"They come again, at most {event.next_records_max} at a time, until the one to blame stands alone."
    )


@sentence.register
def _(event: events.RecordSkipped) -> str:
    return (
        f"Skipped {event.partition}@{event.offset}, key {_text(event.key)}, after attempt "
        f"{event.attempt}: {_clause(event.reason)}."
    )


@sentence.register
def _(event: events.RecordDeadLettered) -> str:
    return (
        f"{event.partition}@{event.offset}, key {_text(event.key)}, is safe among the dead letters of "
        f"{_text(event.to)}."
    )


@sentence.register
def _(event: events.DeadLetterFailed) -> str:
    then = "its key waits" if event.retry_s is None else f"written again in {event.retry_s:g} s"
    return (
        f"The dead letter of {event.partition}@{event.offset}, key {_text(event.key)}, could not be "
        f"written to {_text(event.to)}: {_clause(event.error)}. Nothing is committed past it; {then}."
    )


@sentence.register
def _(event: events.ParkedBudgetFull) -> str:
    action = {
        "pause_partition": "the partition is paused",
        "dead_letter": "that key's records go to the dead letters",
        "stop": "the app stops",
    }
    return (
        f"{event.partition} has {_records(event.parked_records)} ({event.parked_bytes} bytes) parked behind "
        f"failing ones, its share of the parked budget; most are of key {_text(event.largest_key)}: "
        f"{action.get(event.action, event.action)}."
    )


@sentence.register
def _(event: events.DeferredAnswerDropped) -> str:
    return (
        f"The answer to {event.partition}@{event.offset}, key {_text(event.key)}, attempt {event.attempt}, "
        f"which was deferred, counts for nothing: {_clause(event.reason)}."
    )


@sentence.register
def _(event: events.AttemptOverdue) -> str:
    return (
        f"Attempt {event.attempt} of {event.partition}@{event.offset}, key {_text(event.key)}, has run for "
        f"{event.running_s:.1f} s in handler {_text(event.handler)}; deadline_s={event.deadline_s:g}. "
        "A thread cannot be ended: its key and its worker wait. See the stack for where it is."
    )


@sentence.register
def _(event: events.HandlerResized) -> str:
    return f"Handler {_text(event.handler)} has {event.workers} workers now, {event.workers_before} before."


@sentence.register
def _(event: events.StaleResult) -> str:
    return (
        f"Dropped the late outcome of {_records(event.records)} of {event.partition}: epoch "
        f"{event.epoch} had ended. They will be redelivered; a longer drain or faster handlers avoid it."
    )


@sentence.register
def _(event: events.OffsetGap) -> str:
    log = f"the log holds {event.log_start} to {event.log_end}"
    if event.wanted_offset > event.log_end:
        what = f"lies {event.wanted_offset - event.log_end} beyond the end: {log}, it was cut or made anew"
    elif event.wanted_offset < event.log_start:
        what = f"is gone: {log}"
    else:
        what = f"is another record's now: {log}, it was cut and written again"
    lost = f"{_records(event.lost_records)} will not be read" if event.lost_records else "Nothing is skipped"
    step = "stopping" if event.resumed_at is None else f"going on at {event.resumed_at}"
    return (
        f"{event.partition}@{event.wanted_offset} was to be read next and {what}. {lost}; {step} "
        f"(on_out_of_range={_text(event.action)})."
    )


@sentence.register
def _(event: events.RecordsTooOld) -> str:
    return (
        f"Skipped {_records(event.records)} of {event.partition}, offsets {event.first_offset} to "
        f"{event.last_offset}: older than max_age={event.max_age_s:g} s, the oldest "
        f"{event.oldest_age_s:.0f} s."
    )


@sentence.register
def _(event: events.ConnectionTrouble) -> str:
    step = (
        "The client cannot go on: mend the cause and restart."
        if event.fatal
        else "The client goes on trying; if it lasts, check the endpoint's address, network and credentials."
    )
    return f"Connection trouble, {_text(event.code)}: {_clause(event.error)}. {step}"


@sentence.register
def _(event: events.CredentialRotated) -> str:
    return f"Took up a new key from {_text(event.source)}; it is used at the next authentication."


@sentence.register
def _(event: events.CredentialUnusable) -> str:
    reads = "a failed read" if event.failures == 1 else f"{event.failures} failed reads in a row"
    return (
        f"No new key, and the old one stays in use, after {reads}: "
        f"{_clause(event.reason)}. Mend it before the old key is withdrawn."
    )


@sentence.register
def _(event: events.TokenRefreshed) -> str:
    after = f", after {event.failures} attempts that failed" if event.failures else ""
    return (
        f"A new token for {_text(event.endpoint)} came in {event.took_s:.1f} s, valid for "
        f"{event.life_s:.0f} s{after}."
    )


@sentence.register
def _(event: events.TokenRefreshFailed) -> str:
    attempts = "a failed attempt" if event.failures == 1 else f"{event.failures} failed attempts in a row"
    state = (
        f"The one in use is valid for another {event.valid_s:.0f} s, so all goes on"
        if event.valid_s > 0
        else "None is valid now, so the broker refuses the client until one comes"
    )
    return (
        f"No new token for {_text(event.endpoint)} after {attempts}: "
        f"{_clause(event.error)}. {state}; the next attempt is in {event.retry_s:.1f} s."
    )


@sentence.register
def _(event: events.ClientLogged) -> str:
    return f"librdkafka, {logging.getLevelName(event.severity).lower()}: {_clause(event.text)}."


@sentence.register
def _(event: events.UserCodeFailed) -> str:
    return f"Your code in {_text(event.where)} raised {_clause(event.error)}. Mend it there."


@sentence.register
def _(event: events.UserCodeLeft) -> str:
    return (
        f"The stop's time was over while your code still ran: {_names(event.running)}. It is left behind; "
        "make it quicker or raise stop_s."
    )


@sentence.register
def _(event: events.WorkerProcessDied) -> str:
    charged = "the record that it ran counts as failed" if event.was_running else "no record ran in it then"
    advice = " SIGKILL often means that the system ran out of memory." if "SIGKILL" in event.how else ""
    return (
        f"Worker process {event.pid} of {event.worker} ended ({event.how}); {charged}. Another one is "
        f"started in its place.{advice}"
    )


@sentence.register
def _(event: events.StuckReport) -> str:
    running = _names(event.running) or "no record"
    return (
        f"Nothing finished for {event.idle_s:g} s although records wait; running: {running}. See the stacks."
    )


def _plain(value: object) -> object:
    if isinstance(value, TopicPartition):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
