"""Events of a handler's workers, and of errors and long calls in your code."""

from __future__ import annotations

from logging import ERROR, WARNING
from typing import TYPE_CHECKING, Self

from ehkafka.errors import describe
from ehkafka.events.event import Event, Failure, raised
from ehkafka.events.partition import way_past
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import clause, names, plain

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.records import TopicPartition


class HandlerResized(Event):
    """A handler's number of workers was changed while it ran."""

    handler: str
    workers_before: int
    workers: int
    # Found out by `workers="auto"`; else a user asked for it.
    is_auto: bool = False

    def sentence(self) -> str:
        why = ' (workers="auto")' if self.is_auto else ""
        before = f"{self.workers_before} before"
        return f"Handler {plain(self.handler)} has {self.workers} workers now, {before}{why}."


class HandlerReport(Event, kw_only=True):
    """A handler's figures, every `report_interval_s`, also if the handler has no records.

    `records_per_s` is the mean since the last report. `lag_records` is None if a partition's lag is unknown.
    `oldest_s` is None if no record is unfinished. `waiting_keys` wait for a retry, or are on hold.
    """

    handler: str
    topics: tuple[str, ...]
    partitions: int
    records_per_s: float
    lag_records: int | None
    oldest_s: float | None
    waiting_keys: int

    def sentence(self) -> str:
        if not self.partitions:
            return f"{names(self.topics)} ({plain(self.handler)}): no partition."
        lag = "unknown" if self.lag_records is None else f"{self.lag_records:,}"
        said = [f"{_rate(self.records_per_s)} records/s", f"lag {lag}"]
        if self.oldest_s is not None:
            said.append(f"oldest {seconds(self.oldest_s)}")
        if self.waiting_keys:
            said.append(f"{counted(self.waiting_keys, 'key')} waiting")
        return f"{names(self.topics)} ({plain(self.handler)}): {', '.join(said)}."


def _rate(per_s: float) -> str:
    return f"{per_s:.2g}" if 0 < per_s < 10 else f"{per_s:,.0f}"


class AttemptOverdue(Event, level=ERROR):
    """A handler on a thread has run for longer than its `deadline_s`; reported once, with the thread's stack.

    ehkafka cannot end a thread: the key and the worker wait. If the handler returns later, its result counts.
    """

    partition: TopicPartition
    offset: int
    key: str
    attempt: int
    handler: str
    running_s: float
    deadline_s: float
    stack: str

    def sentence(self) -> str:
        return (
            f"Attempt {self.attempt} of {self.partition}@{self.offset}, key {plain(self.key)}, has run for "
            f"{seconds(self.running_s)} in handler {plain(self.handler)}, longer than "
            f"deadline_s={self.deadline_s:g}. ehkafka cannot stop the call, so the key and the worker wait; "
            "the stack shows where the call waits. If the call never returns, stop the group's consumers, "
            f"then run {way_past(self.partition, self.offset)}."
        )

    def subject(self) -> Hashable:
        # When one call hangs, all do, mostly at one line of the handler: one stack tells where; health names
        # every record, hooks hear of each.
        return self.handler, self.stack.partition("\n")[0]

    def attachment(self) -> str:
        return self.stack


class StuckReport(Event, level=ERROR):
    """Records wait, but no record has finished for `idle_s`. Shows the running records and their stacks."""

    idle_s: float
    running: tuple[str, ...]
    stacks: str

    def sentence(self) -> str:
        running = names(self.running) or "no record"
        return (
            f"No record finished for {seconds(self.idle_s)} although records wait. Running: {running}. "
            f"{'The stacks below' if self.stacks else 'Earlier log lines'} show where the calls wait."
        )

    def attachment(self) -> str:
        return self.stacks


class WorkerProcessDied(Event, level=ERROR):
    """A worker process ended by itself and is replaced. `was_running`: its record counts as failed."""

    worker: str
    pid: int
    how: str
    was_running: bool

    def sentence(self) -> str:
        charged = (
            "the record that it ran counts as failed" if self.was_running else "it was not running a record"
        )
        advice = " SIGKILL often means that the system ran out of memory." if "SIGKILL" in self.how else ""
        return (
            f"Worker process {self.pid} of {self.worker} ended ({self.how}); {charged}. A new process "
            f"replaces it.{advice}"
        )


class WorkersLogNothing(Event, level=WARNING):
    """Logging is set up, but not in the worker processes: their log lines below WARNING are lost."""

    worker: str

    def sentence(self) -> str:
        return (
            f"Log lines below WARNING from the worker processes of {plain(self.worker)} are lost: logging is "
            "set up in this process, but not in the worker processes. Set up logging in on_worker_start, "
            "which runs in each worker process, for example: logging.basicConfig(level=logging.INFO)."
        )


class UserCodeFailed(Failure, level=ERROR, subject=("where", "place")):
    """One of your functions (`on_assigned`, `open`, `on_error`, …) raised an error."""

    where: str
    error: str

    @classmethod
    def of(cls, where: str, error: BaseException) -> Self:
        """Return the event for what a hook raised."""
        return cls(where, describe(error), **raised(error))

    def sentence(self) -> str:
        return f"Your code in {plain(self.where)} failed: {clause(self.error)}{self.at_place}. Fix this code."


class UserCodeHangs(Event, level=ERROR):
    """One of your functions has not returned for `running_s`. Other partitions continue."""

    where: str
    running_s: float

    def sentence(self) -> str:
        return (
            f"{plain(self.where)} has not returned for {seconds(self.running_s)}. The partition waits until "
            "the call returns; other partitions continue. Set a timeout on each request that your code makes."
        )


class UserCodeLeft(Event, level=WARNING):
    """The time of a stop was over while your code still ran. The app did not wait for this code."""

    running: tuple[str, ...]

    def sentence(self) -> str:
        return (
            f"The time to stop (stop_s) was over while your code still ran: {names(self.running)}. The app "
            "stopped without waiting for this code. Make the code faster, or raise stop_s."
        )
