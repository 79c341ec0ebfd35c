"""Judges a history while it streams by: whether every promise of the contract is kept.

The measures, each with what exactly is counted:

- **lost**: an offset below the final acknowledged commit of its partition that was received or
  produced and has no outcome in any process. The final commit is the one of the latest request that
  was acknowledged; a stale one counts as final, because the broker may have stored it last.
- **premature commit**: a commit of a partition, counted once, that at its request *or* at its
  acknowledgement lies above an offset which the committing process had received in the epoch current
  at the request, and which had no outcome at that instant; or above everything received in that epoch.
  The request decides in nearly every case: the value is fixed there, the broker may store it at any
  time after it, and records that finish until the answer arrives do not make it right. The
  acknowledgement is judged against the epoch of its request, so a partition that comes back and is read
  again from an older position does not condemn the commit of the epoch before; without a request,
  against the current epoch. A refused commit counts too: its answer may be wrong.
- **order violation**: a start of a record while, in the same epoch, another record of its key is started
  and has no outcome (an attempt that failed leaves it unfinished), or after a later record of its key
  was started, or while an attempt of the same record runs. A key is (topic, partition, key), with
  `lane_scope` also across partitions of one process. Records without a key are spread, and not judged
  unless `null_key_ordered`.
- **stale commit**: acknowledged after an assignment of the partition to another process that followed
  the assignment in whose epoch it was requested. Excepted is a commit requested before that assignment
  where the new owner began at or behind its next_offset: it was stored in time, only its answer was
  read late.
- **duplicate**: every outcome of an offset beyond its first, in whatever process. Bound, per partition:
  the records of each ended epoch that were in flight, or finished at or above the group's commit, when
  the next epoch began. A second outcome within an epoch is never explained, except after a rewind.
- **unseen**: produced (or expected) and without an outcome when the verdict is asked for.
- **cross-epoch overlap**: a start while an older or newer epoch of the partition, in whatever living
  process, runs a record of the same key. Reported, with the records in flight when epochs ended.
- **mirror ahead**: a mirrored next_offset above every acknowledged commit and start position.
- **protocol breach**: an event that the protocol of `ehkafka.events.history` rules out, such as a start
  without a receipt. Late events are those of an epoch that has ended; they are no violation.

Memory: what is unfinished, the keys started since the oldest unfinished record of each epoch, and the
holes in the offsets finished. Single-threaded; `CheckingHistory` is the way in for many threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.checker import history_event as events
from tests.kit.checker.partition_check import PartitionCheck
from tests.kit.checker.process_check import ProcessCheck
from tests.kit.checker.verdict import Findings, Measure, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from ehkafka.records import TopicPartition


class Checker:
    """Streaming judge. `observe` every event in a valid order of the calls, then ask for the verdict.

    `expected` names offsets that must get an outcome, in addition to those of `Produced` events.
    `lane_scope` maps a partition to its handler when handlers run one lane per key over all their
    partitions. `examples_max` bounds the sentences kept per measure.
    """

    def __init__(
        self,
        *,
        expected: Mapping[TopicPartition, Iterable[int]] | None = None,
        lane_scope: Callable[[TopicPartition], Hashable] | None = None,
        null_key_ordered: bool = False,
        examples_max: int = 5,
    ) -> None:
        self.lane_scope = lane_scope
        self.null_key_ordered = null_key_ordered
        self.findings = Findings(examples_max)
        self._partitions: dict[TopicPartition, PartitionCheck] = {}
        self._processes: dict[str, ProcessCheck] = {}
        self._processes_seen = 0
        for name, offsets in (expected or {}).items():
            self.partition(name).produced.update(offsets)

    def observe(self, event: events.HistoryEvent) -> None:
        """Judge one event."""
        _OBSERVERS[type(event)](self, event)

    def process(self, run: str, pid: int) -> ProcessCheck:
        """Return the part that judges one process; its methods are those of a `History`."""
        found = self._processes.get(run)
        if found is None:
            found = self._processes[run] = ProcessCheck(self, run, pid)
            self._processes_seen += 1
        return found

    def partition(self, name: TopicPartition) -> PartitionCheck:
        """Return what is known of a partition over all processes."""
        found = self._partitions.get(name)
        if found is None:
            found = self._partitions[name] = PartitionCheck(name, self.findings)
        return found

    def produced(self, name: TopicPartition, offsets: Sequence[int]) -> None:
        """Note offsets that are owed an outcome from now on."""
        self.partition(name).produced.update(offsets)

    def process_ended(self, run: str) -> None:
        """Note that a process stopped or was killed."""
        found = self._processes.pop(run, None)
        if found is not None:
            found.ended()

    def process_killed(self, pid: int) -> None:
        """Note that every run of this pid so far is gone."""
        for run in [run for run, process in self._processes.items() if process.pid == pid]:
            self.process_ended(run)

    def verdict(self, *, complete: bool = True) -> Verdict:
        """Return the judgement so far. With `complete=False` more is to come: unseen is not judged."""
        findings = self.findings.copy()
        partitions = list(self._partitions.values())
        for partition in partitions:
            _add_missing(findings, partition, complete=complete)
        bounds = [partition.bound_now() for partition in partitions]
        return Verdict(
            **{str(measure): count for measure, count in findings.counts.items()},
            duplicates_bound=sum(bounds),
            duplicates_unexplained=sum(map(_unexplained, partitions, bounds)),
            in_flight_at_end=sum(partition.in_flight_at_end for partition in partitions),
            processes=self._processes_seen,
            epochs=sum(partition.epochs for partition in partitions),
            produced=sum(len(partition.produced) for partition in partitions),
            received=sum(len(partition.received) for partition in partitions),
            finished=sum(len(partition.done) for partition in partitions),
            commits_acknowledged=sum(partition.commits.acknowledgements for partition in partitions),
            examples={measure: tuple(texts) for measure, texts in findings.examples.items()},
        )


def check_history(history: Iterable[events.HistoryEvent], checker: Checker | None = None) -> Verdict:
    """Judge a whole history, for instance `read_history(paths)`."""
    checker = checker or Checker()
    for event in history:
        checker.observe(event)
    return checker.verdict()


def _add_missing(findings: Findings, partition: PartitionCheck, *, complete: bool) -> None:
    name = partition.name
    for offset in partition.lost():
        text = f"{name}@{offset} has no outcome, but next_offset {partition.committed} is committed"
        findings.add(Measure.LOST, text)
    for offset in partition.unseen() if complete else ():
        received = "received" if offset in partition.received else "never received"
        findings.add(Measure.UNSEEN, f"{name}@{offset} was produced and has no outcome ({received})")


def _unexplained(partition: PartitionCheck, bound: int) -> int:
    return max(0, partition.duplicates - partition.repeats - bound) + partition.repeats


def _produced(checker: Checker, event: events.Produced) -> None:
    checker.produced(event.partition, event.offsets)


def _assigned(checker: Checker, event: events.Assigned) -> None:
    checker.process(event.run, event.pid).assigned(event.partition, event.epoch, event.position)


def _revoked(checker: Checker, event: events.Revoked) -> None:
    checker.process(event.run, event.pid).revoked(event.partition, event.epoch, event.reason)


def _received(checker: Checker, event: events.Received) -> None:
    checker.process(event.run, event.pid).received(event.partition, event.epoch, event.offsets)


def _jumped(checker: Checker, event: events.Jumped) -> None:
    checker.process(event.run, event.pid).jumped(event.partition, event.epoch, event.next_offset)


def _started(checker: Checker, event: events.Started) -> None:
    checker.process(event.run, event.pid).started(
        event.partition, event.epoch, event.offset, event.key, event.attempt
    )


def _finished(checker: Checker, event: events.Finished) -> None:
    checker.process(event.run, event.pid).finished(
        event.partition, event.epoch, event.offset, event.key, event.attempt, event.outcome
    )


def _commit_requested(checker: Checker, event: events.CommitRequested) -> None:
    checker.process(event.run, event.pid).commit_requested(event.next_offsets)


def _commit_acknowledged(checker: Checker, event: events.CommitAcknowledged) -> None:
    checker.process(event.run, event.pid).commit_acknowledged(event.next_offsets)


def _commit_failed(checker: Checker, event: events.CommitFailed) -> None:
    checker.process(event.run, event.pid).commit_failed(event.next_offsets, event.error)


def _mirrored(checker: Checker, event: events.Mirrored) -> None:
    checker.process(event.run, event.pid).mirrored(event.next_offsets)


def _process_stopped(checker: Checker, event: events.ProcessStopped) -> None:
    checker.process_ended(event.run)


def _process_killed(checker: Checker, event: events.ProcessKilled) -> None:
    checker.process_killed(event.killed_pid)


def _torn(checker: Checker, event: events.TornLine) -> None:
    checker.findings.add(Measure.TORN, f"{event.path}, line {event.line} was not written to its end")


def _nothing_to_judge(_checker: Checker, _event: events.HistoryEvent) -> None:
    """Ignore an event that proves nothing: the outcome of a dead letter comes with `Finished`."""


_OBSERVERS: dict[type[events.HistoryEvent], Callable[[Checker, Any], None]] = {
    events.Produced: _produced,
    events.Assigned: _assigned,
    events.Revoked: _revoked,
    events.Received: _received,
    events.Jumped: _jumped,
    events.Started: _started,
    events.Finished: _finished,
    events.DeadLettered: _nothing_to_judge,
    events.CommitRequested: _commit_requested,
    events.CommitAcknowledged: _commit_acknowledged,
    events.CommitFailed: _commit_failed,
    events.Mirrored: _mirrored,
    events.ProcessStarted: _nothing_to_judge,
    events.ProcessStopped: _process_stopped,
    events.ProcessKilled: _process_killed,
    events.TornLine: _torn,
}
