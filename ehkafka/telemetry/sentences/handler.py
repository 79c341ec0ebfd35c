"""How the events of handlers and of the user's code read."""

from __future__ import annotations

from ehkafka.events.handler import (
    AttemptOverdue,
    HandlerResized,
    StuckReport,
    UserCodeFailed,
    UserCodeHangs,
    UserCodeLeft,
    WorkerProcessDied,
    WorkersLogNothing,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import at_place, clause, names, text
from ehkafka.wording import seconds


@sentence.register
def _(event: AttemptOverdue) -> str:
    return (
        f"Attempt {event.attempt} of {event.partition}@{event.offset}, key {text(event.key)}, has run for "
        f"{seconds(event.running_s)} in handler {text(event.handler)}; deadline_s={event.deadline_s:g}. "
        "A thread, or a coroutine that swallows its cancellation, cannot be ended: its key and its "
        "worker wait. See the stack for where it is."
    )


@sentence.register
def _(event: HandlerResized) -> str:
    return f"Handler {text(event.handler)} has {event.workers} workers now, {event.workers_before} before."


@sentence.register
def _(event: UserCodeFailed) -> str:
    return f"Your code in {text(event.where)} raised {clause(event.error)}{at_place(event)}. Fix it there."


@sentence.register
def _(event: UserCodeHangs) -> str:
    return (
        f"{text(event.where)} has not returned for {seconds(event.running_s)}. What its partition "
        "waits for does "
        "not happen before it returns; hooks of other partitions and deadlines go on. Bound what it calls."
    )


@sentence.register
def _(event: UserCodeLeft) -> str:
    return (
        f"The stop's time was over while your code still ran: {names(event.running)}. It is left running; "
        "make it quicker or raise stop_s."
    )


@sentence.register
def _(event: WorkerProcessDied) -> str:
    charged = "the record that it ran counts as failed" if event.was_running else "no record ran in it then"
    advice = " SIGKILL often means that the system ran out of memory." if "SIGKILL" in event.how else ""
    return (
        f"Worker process {event.pid} of {event.worker} ended ({event.how}); {charged}. Another one is "
        f"started in its place.{advice}"
    )


@sentence.register
def _(event: WorkersLogNothing) -> str:
    return (
        f"What the processes of {text(event.worker)} log below WARNING goes nowhere, since logging is set up "
        "here but not there: set it up in on_worker_start, which runs in each of them, such as "
        "logging.basicConfig(level=logging.INFO)."
    )


@sentence.register
def _(event: StuckReport) -> str:
    running = names(event.running) or "no record"
    return (
        f"Nothing finished for {seconds(event.idle_s)} although records wait; running: {running}. "
        "See the stacks."
    )
