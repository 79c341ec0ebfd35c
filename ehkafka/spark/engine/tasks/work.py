"""One task: the records of its pieces through the handlers' inboxes, until each has a result.

Runs in Spark's Python worker process, on its main thread, which does what the poll thread does in the local
engine: it receives, watches, and never calls a handler. Workers, inboxes, failure policies and dead letters
are the local engine's own. It commits nothing: whether the batch counts is decided on the driver.

Handlers that still run when the task fails are waited for, within `stop_s`; what runs even then is in
`still_running`, and its process must not take another task.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ehkafka.events import UserCodeFailed, UserCodeLeft
from ehkafka.recovery.failures import StopWords
from ehkafka.run.assembly import Assembly
from ehkafka.run.ending import death_of
from ehkafka.run.routes import make_route
from ehkafka.run.sending import LETTERS_S, make_letters
from ehkafka.spark.engine.tasks.outputs import TaskOutputs
from ehkafka.spark.engine.tasks.partition_work import PartitionWork, naming
from ehkafka.spark.engine.tasks.watch import TaskWatch
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.errors import EhkafkaError
    from ehkafka.ranges.places import Piece
    from ehkafka.records import Message, TopicPartition
    from ehkafka.run.options import AppOptions
    from ehkafka.spark.engine.tasks.results import PartitionResult

    # What reading gives: records of one piece at a time, in offset order.
    Batches = Iterable[tuple[Piece, Sequence[Message]]]

# Between two looks while records are handled: what wakes, retries and ends them is seen this late at most.
CHECK_S = 1e-3
_STOP_WORDS = StopWords(
    kept="Nothing of its batch was committed; all of it is handled again at the next start",
    advice="Fix the handler or the record, or choose what failures lead to: on_failure=Skip() or "
    "DeadLetter(…)",
    answers="'stop' or None",
)


class TaskWork:
    """The handlers of one task. `run` once. Raises `EhkafkaError` for what fails the task."""

    def __init__(self, app: AppOptions, pieces: Sequence[Piece]) -> None:
        """`app` is the part of one that was shipped."""
        self._hooks = app.partition_hooks
        self._settings = app.settings
        self._bus = EventBus()
        # The first error counts. Written by any thread, read by the task's.
        self._failure: EhkafkaError | None = None
        # Until when a failed task waits for its handlers.
        self._ends_s: float | None = None
        # What of the user's still ran when `run` ended: threads, and records that wait for an answer.
        self.still_running: tuple[str, ...] = ()
        topics = {piece.topic for piece in pieces}
        specs = tuple(spec for spec in app.specs if topics & set(spec.topics))
        assembly = Assembly(
            app=replace(app, specs=specs),
            bus=self._bus,
            fail=self._fail,
            worker_died=lambda error: self._fail(death_of("A worker thread", error)),
            user_code_failed=lambda where, error: self._bus.emit(UserCodeFailed.of(where, error)),
            exit_now=lambda: False,
            stop_words=_STOP_WORDS,
            may_hold=False,
        )
        self._outputs = TaskOutputs(assembly)
        self._letters = make_letters(assembly, self._outputs.delivery)
        self._routes = [make_route(assembly, spec, self._letters, self._outputs.delivery) for spec in specs]
        self._ages = assembly.age_limits()
        by_topic = {topic: route for route in self._routes for topic in route.topics}
        self._work = {
            piece.where: PartitionWork(by_topic[piece.topic], piece.where, self._ages) for piece in pieces
        }
        # Those that have begun, after their on_assigned.
        self._begun: list[PartitionWork] = []
        self._watch = TaskWatch(
            assembly,
            self._routes,
            self._ages,
            running=lambda: [work.running() for work in self._begun],
            check_letters=self._letters.check,
            outputs_left=self._outputs.count,
        )

    @property
    def failure(self) -> EhkafkaError | None:
        """What handlers and their policies stopped the task with; trying it again would call them again."""
        return self._failure

    def run(self, batches: Batches) -> list[PartitionResult]:
        """Handle what the pieces hold; return how it ended, a row for each partition."""
        self._bus.start()
        try:
            try:
                self._open()
                for piece, messages in batches:
                    self._receive(piece.where, messages)
                self._finish()
            except BaseException:
                self._cut_short()
                raise
            results = [work.result() for work in self._work.values()]
            self._close_partitions()
            self._outputs.are_safe = True
        finally:
            self._leave()
        retried = self._bus.counters_snapshot()["RecordRetried"]
        return [results[0]._replace(retried=retried), *results[1:]] if results else results

    def _open(self) -> None:
        self._outputs.start()
        for route in self._routes:
            where = f"on_worker_start failed for handler {route.handler!r}"
            with naming(where, "No record of its task was handled. Fix the hook."):
                route.workers.start()
        for work in self._work.values():
            if (hook := self._hooks.on_assigned) is not None:
                where = f"on_assigned failed for {work.partition}"
                with naming(where, "Its records were not handled. Fix the hook."):
                    hook(work.partition)
            self._begun.append(work)
            work.begin()

    def _receive(self, partition: TopicPartition, messages: Sequence[Message]) -> None:
        work = self._work[partition]
        size = self._settings.consume_records_max
        for start in range(0, len(messages), size):
            while self._is_full():
                self._turn()
                time.sleep(CHECK_S)
            work.receive(messages[start : start + size])
            self._turn()
        if not messages:
            self._turn()

    def _is_full(self) -> bool:
        settings, tallies = self._settings, [route.hub.tally for route in self._routes]
        return (
            sum(tally.backlog_records for tally in tallies) >= settings.backlog_records_max
            or sum(tally.backlog_bytes for tally in tallies) >= settings.backlog_bytes_max
            or sum(tally.parked_records for tally in tallies) >= settings.parked_records_max
            or sum(tally.parked_bytes for tally in tallies) >= settings.parked_bytes_max
        )

    def _finish(self) -> None:
        for route in self._routes:
            route.hub.hurry()
        self._turn()
        # In this order: an output is put before its record ends.
        while self._has_unfinished() or self._outputs.count():
            time.sleep(CHECK_S)
            self._turn()

    def _has_unfinished(self) -> bool:
        for route in self._routes:
            with route.hub.locked() as inboxes:
                if inboxes.tally.unfinished_records:
                    return True
        return False

    def _turn(self) -> None:
        """Settle, balance, end waits that are over; raise what fails the task."""
        for route in self._routes:
            route.hub.watch()
        self._watch.check(time.monotonic())
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: EhkafkaError) -> None:
        if self._failure is None:
            self._failure = error

    def _cut_short(self) -> None:
        """Start nothing more and wait, bounded, for what runs: it is handled again with its whole batch."""
        for work in self._begun:
            work.drain()
        self._ends_s = time.monotonic() + self._settings.stop_s
        while not all(work.is_drained() for work in self._begun) and time.monotonic() < self._ends_s:
            for route in self._routes:
                route.hub.settle()
            time.sleep(CHECK_S)
        self._close_partitions()
        for route in self._routes:
            route.workers.cancel_ended()

    def _close_partitions(self) -> None:
        for work in self._begun:
            work.end()
        # Before anything else: of a task that failed, nothing may come behind what its next attempt sends.
        self._outputs.end()
        for work in self._begun:
            if (error := work.close()) is not None:
                self._bus.emit(UserCodeFailed.of(f"closing {work.partition}", error))
            if self._ages is not None:
                self._ages.report(work.partition)
            if self._hooks.on_revoked is not None:
                try:
                    self._hooks.on_revoked(work.partition, "stopped")
                # Reported, as the local engine does: its records are done.
                except (Exception, SystemExit) as failed:
                    self._bus.emit(UserCodeFailed.of("on_revoked", failed))

    def _leave(self) -> None:
        self._outputs.stop()
        self._letters.stop(LETTERS_S)
        ends_s = self._ends_s or time.monotonic() + self._settings.stop_s
        left = [
            name
            for route in self._routes
            for name in route.workers.stop(max(LETTERS_S, ends_s - time.monotonic()))
        ]
        # The threads that answer deferred records may still work on them.
        deferred = sum(len(route.deferrals.waiting) for route in self._routes if route.deferrals is not None)
        self.still_running = (
            *left,
            *([f"{deferred} deferred records"] if deferred else []),
            *self._outputs.still_running,
        )
        if self.still_running:
            self._bus.emit(UserCodeLeft(self.still_running))
        self._bus.close(2.0)
