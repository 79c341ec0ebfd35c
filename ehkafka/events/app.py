"""Events of the app: its start, advice about its settings, and its stop."""

from __future__ import annotations

from logging import WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import clause, names, plain, records, returned

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.settings import Drain

_FINISHED = {
    "started": "the records that have started, then earlier records of their partitions if time allows",
    "all": "all received records",
    "running": "the records that handlers run now",
}


class AppStarted(Event):
    """The consumer is subscribed and the workers wait for records."""

    group: str
    topics: tuple[str, ...]

    def sentence(self) -> str:
        return f"Consuming {names(self.topics)} in group {plain(self.group)}."


class HttpServing(Event):
    """The app serves probes, metrics, the page and actions at `url`."""

    url: str
    is_loopback: bool

    def sentence(self) -> str:
        who = "for this machine only" if self.is_loopback else "for all machines; only probes need no token"
        return f"Serving the page, probes, metrics and actions on {plain(self.url)}, {who}."


class AppCatchingUp(Event):
    """Progress of a run that ends when it has caught up. Emitted every 10 s.

    `left_records`: offsets up to where the logs ended at the start, in all partitions of this member.
    `unknown_partitions`: the number of partitions whose end the broker has not reported yet.
    """

    left_records: int
    records_per_s: float
    partitions: int
    unknown_partitions: int

    def sentence(self) -> str:
        if not self.partitions:
            return "Catching up: the group has given this member no partition yet."
        left = f"{records(self.left_records)} left in {counted(self.partitions, 'partition')}"
        if self.unknown_partitions:
            left += f" (the end of {self.unknown_partitions} of them is not known yet)"
        if not self.records_per_s:
            return f"Catching up: {left}; no record was finished in the last seconds."
        time_left = f", about {seconds(self.left_records / self.records_per_s)} to go"
        return f"Catching up: {left}, {self.records_per_s:,.0f} records/s{time_left}."


class AppCaughtUp(Event):
    """All records up to where the logs ended are finished and committed, so the run ends.

    `is_standby`: the group has given this member no partition for a while, so the member has no records.
    """

    partitions: int
    finished_records: int
    took_s: float
    is_standby: bool

    def sentence(self) -> str:
        if self.is_standby:
            return "This member has no partition, so it has nothing to catch up with."
        done = f"{records(self.finished_records)} in {seconds(self.took_s)}"
        return f"Caught up with {counted(self.partitions, 'partition')}: {done}."


class GroupWatched(Event, level=WARNING):
    """Before a reset, the app watches the group's commits: the service may not report the members."""

    group: str
    watch_s: float

    def sentence(self) -> str:
        return (
            f"Before the reset of group {plain(self.group)}, the app watches the group's commits for "
            f"{seconds(self.watch_s)}, because Event Hubs may not report the group's running consumers."
        )


class GroupReset(Event, level=WARNING):
    """The app moved the group back to `start` before joining it. `once_as`: the name in `reset`."""

    group: str
    topics: tuple[str, ...]
    partitions: int
    once_as: str | None

    def sentence(self) -> str:
        again = f"The next start with reset={plain(self.once_as or 'True')} "
        again += "resets the group again." if self.once_as is None else "does not repeat the reset."
        return (
            f"Group {plain(self.group)} was reset to start= in {counted(self.partitions, 'partition')} of "
            f"{names(self.topics)}. {again}"
        )


class SettingAdvice(Event, level=WARNING, subject="property"):
    """A setting is permitted, but the service or the client library advises against it. Logged at start."""

    property: str
    value: str
    advice: str
    source: str

    def sentence(self) -> str:
        return (
            f"{plain(self.property)}={plain(self.value)} is not recommended: {clause(self.advice)} "
            f"({plain(self.source)})."
        )


class StateReport(Event, level=WARNING, kw_only=True):
    """The state that an operator has requested: the snapshot in `lines`, and the busy workers' stacks."""

    # Who asks wants to see it, whatever the level.
    why: str
    state: str
    partitions: int
    lag_records: int | None
    backlog_records: int
    parked_records: int
    busy_workers: int
    lines: str
    stacks: str

    def sentence(self) -> str:
        lag = "unknown" if self.lag_records is None else self.lag_records
        return (
            f"State ({clause(self.why)}): {self.state}, {counted(self.partitions, 'partition')}, lag {lag}, "
            f"backlog {self.backlog_records}, waiting {self.parked_records}; "
            f"{counted(self.busy_workers, 'busy worker')}."
        )

    def subject(self) -> Hashable:
        return object()  # asked twice, it is answered twice

    def attachment(self) -> str:
        return f"{self.lines}\n{self.stacks}".rstrip()


class AppStopping(Event):
    """A stop began: the app receives no more records. The setting `drain` selects what is finished."""

    reason: str
    drain: Drain
    deadline_s: float

    def sentence(self) -> str:
        return (
            f"Stopping ({clause(self.reason)}): up to {seconds(self.deadline_s)} to finish "
            f"{_FINISHED[self.drain]}."
        )


class Draining(Event):
    """Progress of a drain. Emitted about once a second."""

    remaining_s: float
    unfinished_records: int

    def sentence(self) -> str:
        return f"Draining: {records(self.unfinished_records)} unfinished, {self.remaining_s:.0f} s left."


class BatchesFinished(Event):
    """Batches on Spark have finished: all their records have a result. Emitted every few seconds at most.

    `took_s`: the time of the batches, without the time between them. `left_records`: offsets up to the logs'
    ends as last seen; None if Spark does not report them.
    """

    batches: int
    received_records: int
    took_s: float
    left_records: int | None

    def sentence(self) -> str:
        rate = f" ({self.received_records / self.took_s:.0f}/s)" if self.took_s > 0 else ""
        left = "" if self.left_records is None else f"; {self.left_records} left"
        batches = counted(self.batches, "batch", "batches")
        return (
            f"Finished {batches} with {records(self.received_records)} in {seconds(self.took_s)}{rate}{left}."
        )


class RecordsLeft(Event):
    """A stop left received records for the next owner. The commits are before all of these records.

    `waiting`: the first of the keys that wait for a retry or are on hold, each with its record and the
    reason. `repeated_without_metadata`: the number of records that finished out of order. A client that
    does not read the commits' metadata repeats these records.
    """

    never_started_records: int
    waiting_keys: int
    waiting: tuple[str, ...]
    repeated_without_metadata: int

    def sentence(self) -> str:
        left = []
        if self.never_started_records:
            left.append(f"{records(self.never_started_records)} that never started")
        if self.waiting_keys:
            left.append(f"{counted(self.waiting_keys, 'waiting key')}: {names(self.waiting)}")
        others = ""
        if self.repeated_without_metadata:
            others = (
                f"; a client that ignores the metadata of its commits would repeat up to "
                f"{records(self.repeated_without_metadata)}"
            )
        # What still runs is named when the app has stopped.
        begin = f"Left for the next owner: {'; '.join(left)}. " if left else ""
        return f"{begin}ehkafka repeats no finished record{others}."


class AppStopped(Event):
    """The run has ended, and the consumer has left the group. `returned_records`: left for the next owner.

    `exit_code` is 0 if the result of each started record is saved. Otherwise it is the exit code of the error
    that `App.run()` and `App.stop()` raise. The error of an `on_stop` function in the program's own thread
    comes after this event.
    """

    exit_code: int
    returned_records: int

    def sentence(self) -> str:
        return f"Stopped with exit code {self.exit_code}; {returned(self.returned_records)}."
