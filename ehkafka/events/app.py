"""What happens to the app: its start, what it is advised then, its stop."""

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
    """Probes, metrics, the page and actions are served there."""

    url: str
    is_loopback: bool

    def sentence(self) -> str:
        who = "for this machine only" if self.is_loopback else "for all machines; only probes need no token"
        return f"Serving the page, probes, metrics and actions on {plain(self.url)}, {who}."


class AppCatchingUp(Event):
    """A run that ends once it has caught up goes on; every 10 s.

    `left_records` are offsets up to where the logs ended at the start, over the partitions that are ours;
    `unknown_partitions` are those of which the broker has not said yet where they end.
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
    """All up to where the logs ended is finished and committed, so the run ends.

    `is_standby`: the group has given this member no partition for a while, so there is nothing to do.
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
    """Before a reset the group's commits are watched: the service may not tell whether it has members."""

    group: str
    watch_s: float

    def sentence(self) -> str:
        return (
            f"Before the reset of group {plain(self.group)}, the app watches the group's commits for "
            f"{seconds(self.watch_s)}, because Event Hubs may not report the group's running consumers."
        )


class GroupReset(Event, level=WARNING):
    """The group was taken back to `start` before the app joined it. `once_as` is the setting's name."""

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
    """An operator has asked what the app does: its snapshot in `lines`, and its busy workers' stacks."""

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
    """A stop began: intake ends; what is finished within the deadline says `drain` of the settings."""

    reason: str
    drain: Drain
    deadline_s: float

    def sentence(self) -> str:
        return (
            f"Stopping ({clause(self.reason)}): up to {seconds(self.deadline_s)} to finish "
            f"{_FINISHED[self.drain]}."
        )


class Draining(Event):
    """A drain goes on; emitted about once a second."""

    remaining_s: float
    unfinished_records: int

    def sentence(self) -> str:
        return f"Draining: {records(self.unfinished_records)} unfinished, {self.remaining_s:.0f} s left."


class BatchesFinished(Event):
    """Batches on Spark that count by now: all their records have an outcome. Every few seconds at most.

    `took_s` is the time that they took, without that between them. `left_records` are offsets up to the logs'
    ends as last seen; None where Spark does not tell.
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
    """A stop left received records to the next owner. None of them was committed past.

    `waiting` names the first of the keys that wait for a retry or are held, each with its record and the
    reason. `repeated_without_metadata` is how many offsets are finished above the commits: a client that
    does not read their metadata repeats them.
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
    """The run has ended, the consumer left the group. `returned_records` were received and have no outcome.

    `exit_code` is 0 when nothing that was started is without a saved outcome, else that of the error that
    `App.run()` and `App.stop()` raise; what an `on_stop` function raises in the program's own thread comes
    later.
    """

    exit_code: int
    returned_records: int

    def sentence(self) -> str:
        return f"Stopped with exit code {self.exit_code}; {returned(self.returned_records)}."
