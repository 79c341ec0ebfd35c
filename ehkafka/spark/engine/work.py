"""One task: the records of its pieces through the handlers' lanes, until each has an outcome.

Runs in Spark's Python worker process, on its main thread, which does what the poll thread does in the local
engine: it receives, watches, and never calls a handler. Workers, lanes, failure policies and dead letters are
the local engine's own. It commits nothing: whether the batch counts is decided on the driver.

Handlers that still run when the task fails are waited for, within `stop_s`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ehkafka.assembly import Assembly
from ehkafka.errors import EhkafkaError, HandlerFailedError, said
from ehkafka.events import UserCodeFailed
from ehkafka.intake.max_age import AgeLimits
from ehkafka.lanes.order import describe_key
from ehkafka.recovery.desk import STOP
from ehkafka.run_errors import death_of
from ehkafka.spark.engine.partition_work import PartitionWork
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.endpoint import Endpoint
    from ehkafka.intake.route import Route
    from ehkafka.records import Message, TopicPartition
    from ehkafka.spark.engine.results import PartitionResult
    from ehkafka.spark.engine.shipment import Shipment
    from ehkafka.spark.source.planning import Piece

    # What reading gives: records of one piece at a time, in offset order.
    Batches = Iterable[tuple[Piece, Sequence[Message]]]

# Between two looks while records are handled: what wakes, retries and ends them is seen this late at most.
LOOK_S = 1e-3
# Between two looks at deadlines, deferred records and lanes that nothing would ever end.
SLOW_LOOK_S = 0.5
LETTERS_S = 0.5


class TaskWork:
    """The handlers of one task. `run` once. Raises `EhkafkaError` for what fails the task."""

    def __init__(self, shipment: Shipment, endpoint: Endpoint, pieces: Sequence[Piece]) -> None:
        self._hooks = shipment.partition_hooks
        self._settings = settings = shipment.as_settings()
        self._bus = EventBus()
        # The first error counts. Written by any thread, read by the task's.
        self._failure: EhkafkaError | None = None
        self._next_slow_look_s = 0.0
        assembly = Assembly(
            endpoint=endpoint,
            settings=settings,
            bus=self._bus,
            fail=self._fail,
            worker_died=lambda error: self._fail(death_of("A worker thread", error)),
            user_code_failed=lambda where, error: self._bus.emit(UserCodeFailed(where, said(error))),
            leave_now=lambda: False,
            middleware=shipment.middleware,
            on_error=shipment.on_error,
            worker_set_up=shipment.worker_set_up,
            worker_tear_down=shipment.worker_tear_down,
            history=None,
        )
        topics = {piece.topic for piece in pieces}
        specs = [spec for spec in shipment.specs if topics & set(spec.topics)]
        self._letters = assembly.letters(shipment.specs)
        self._routes = [assembly.route(spec, self._letters) for spec in specs]
        self._ages = _age_limits(shipment, self._bus)
        by_topic = {topic: route for route in self._routes for topic in route.topics}
        self._work = {
            piece.where: PartitionWork(
                by_topic[piece.topic], piece.where, settings.batch_records_max, self._ages
            )
            for piece in pieces
        }

    @property
    def failure(self) -> EhkafkaError | None:
        """What handlers and their policies stopped the task with; trying it again would call them again."""
        return self._failure

    def run(self, batches: Batches) -> list[PartitionResult]:
        """Handle what the pieces hold; return how it ended, a row for each partition."""
        self._bus.start()
        try:
            self._open()
            try:
                for piece, messages in batches:
                    self._receive(piece.where, messages)
                self._finish()
            except BaseException:
                self._cut_short()
                raise
            results = [work.result() for work in self._work.values()]
            self._close_partitions()
        finally:
            self._leave()
        return self._with_retries(results)

    def _open(self) -> None:
        self._letters.start()
        for route in self._routes:
            route.workers.start()
        for work in self._work.values():
            self._call_hook("on_assigned", work.partition)
            work.begin()

    def _receive(self, partition: TopicPartition, messages: Sequence[Message]) -> None:
        work = self._work[partition]
        for some in work.slices(messages):
            while self._is_full():
                self._turn()
                time.sleep(LOOK_S)
            work.receive(some)
            self._turn()
        if not messages:
            self._turn()

    def _is_full(self) -> bool:
        settings, dispatchers = self._settings, [route.dispatcher for route in self._routes]
        return (
            sum(d.backlog_records for d in dispatchers) >= settings.backlog_records_max
            or sum(d.backlog_bytes for d in dispatchers) >= settings.backlog_bytes_max
            or sum(d.parked_records for d in dispatchers) >= settings.parked_records_max
            or sum(d.parked_bytes for d in dispatchers) >= settings.parked_bytes_max
        )

    def _finish(self) -> None:
        for route in self._routes:
            route.exchange.hurry()
        self._turn()
        while any(route.dispatcher.unfinished_records for route in self._routes):
            time.sleep(LOOK_S)
            self._turn()

    def _turn(self) -> None:
        """Settle, wake, end waits that are over; raise what fails the task."""
        now_s = time.monotonic()
        for route in self._routes:
            due_s = route.dispatcher.holds.next_due_s()
            if due_s is not None and due_s <= now_s:
                with route.exchange.locked() as dispatcher:
                    dispatcher.holds.unpark_due(now_s)
            route.exchange.watch()
        if now_s >= self._next_slow_look_s:
            self._next_slow_look_s = now_s + SLOW_LOOK_S
            self._look_slowly()
        if self._failure is not None:
            raise self._failure

    def _look_slowly(self) -> None:
        if self._ages is not None:
            self._ages.look()
        for route in self._routes:
            if route.deferrals is not None:
                for head in route.deferrals.take_expired():
                    head.expire()
            for late in route.attempts.overdue() if route.attempts is not None else ():
                self._fail(
                    HandlerFailedError(
                        f"Handler {late.handler!r} has been busy with {late.partition}@{late.offset}, key "
                        f"{late.key}, for {late.running_s:.1f} s; its deadline_s is {late.deadline_s:g}. A "
                        "thread cannot be ended, so its task fails. Make the handler an async def, or "
                        "raise deadline_s."
                    )
                )
            self._look_for_endless(route)

    def _look_for_endless(self, route: Route) -> None:
        """Fail the task for a lane that waits for what no batch can wait for: a command, or a restart."""
        with route.exchange.locked() as dispatcher:
            diverting = dispatcher.verdicts.diverting
            for lane, hold in dispatcher.holds.held.items():
                if hold.due_s is None and lane not in diverting and lane.head is not None:
                    where = f"{lane.assignment.partition}@{lane.head.offset()}, key {describe_key(lane.key)}"
                    reason = getattr(hold.decision, "reason", "")
                    self._fail(
                        HandlerFailedError(
                            f"The record at {where} of handler {route.handler!r} waits for good "
                            f"({reason}), and its batch would never end. On Spark on_error answers "
                            f"{STOP!r} or None, and letters must be taken."
                        )
                    )
                    return

    def _fail(self, error: EhkafkaError) -> None:
        if self._failure is None:
            self._failure = error

    def _cut_short(self) -> None:
        """Start nothing more and wait, bounded, for what runs: it is handled again with its whole batch."""
        for work in self._work.values():
            work.drain()
        ends_s = time.monotonic() + self._settings.stop_s
        while not all(work.is_drained() for work in self._work.values()) and time.monotonic() < ends_s:
            for route in self._routes:
                route.exchange.settle()
            time.sleep(LOOK_S)
        self._close_partitions()

    def _close_partitions(self) -> None:
        for work in self._work.values():
            if (error := work.end()) is not None:
                self._bus.emit(UserCodeFailed(f"closing {work.partition}", said(error)))
            if self._ages is not None:
                self._ages.tell(work.partition)
            if self._hooks.on_revoked is not None:
                try:
                    self._hooks.on_revoked(work.partition, "stopped")
                except Exception as failed:  # told, as the local engine does: the batch's records are done
                    self._bus.emit(UserCodeFailed("on_revoked", said(failed)))

    def _leave(self) -> None:
        self._letters.stop(LETTERS_S)
        ends_s = time.monotonic() + self._settings.stop_s
        for route in self._routes:
            route.workers.stop(max(LETTERS_S, ends_s - time.monotonic()))
        self._bus.close(2.0)

    def _call_hook(self, name: str, partition: TopicPartition) -> None:
        function = getattr(self._hooks, name)
        if function is None:
            return
        try:
            function(partition)
        except Exception as error:
            raise EhkafkaError(
                f"{name} failed for {partition}: {said(error)}. Its records were not handled. Fix the hook."
            ) from error

    def _with_retries(self, results: list[PartitionResult]) -> list[PartitionResult]:
        retried = self._bus.counters_snapshot()["RecordRetried"]
        return [replace(results[0], retried=retried), *results[1:]] if results else results


def _age_limits(shipment: Shipment, bus: EventBus) -> AgeLimits | None:
    usual = shipment.settings["max_age"]
    limits = {
        topic: limit.total_seconds()
        for spec in shipment.specs
        for topic in spec.topics
        if (limit := spec.max_age or usual) is not None
    }
    return AgeLimits(limits, emit=bus.emit, count=bus.count) if limits else None
