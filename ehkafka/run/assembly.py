"""Assembly: builds the parts of one run from what the user registered and set.

Called by `Runtime` before any thread of the run exists. Opens nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ehkafka.endpoint.properties.advice import producer_advice
from ehkafka.endpoint.properties.layers import letter_properties
from ehkafka.handlers.spec import is_batch
from ehkafka.intake.contact import Contact
from ehkafka.intake.context import IntakeContext
from ehkafka.intake.epochs import Epochs
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.hook_threads import HookThreads
from ehkafka.intake.max_age import AgeLimits
from ehkafka.intake.owned import OwnedPartitions
from ehkafka.intake.route import Route
from ehkafka.intake.throttle import Throttle
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.order import KeyReader
from ehkafka.outputs.own_producer import OwnProducer
from ehkafka.positions.finder import Lookups, PositionFinder
from ehkafka.positions.restore import Restore
from ehkafka.positions.start import check_start_topics
from ehkafka.progress.commits import CONSUMER_COMMITS
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger
from ehkafka.progress.pacing import commit_pacing
from ehkafka.progress.saving import ProgressSaver, metadata_bytes_max
from ehkafka.records import record_type, sending_type
from ehkafka.recovery.failures import STOP_WORDS, Failures, StopWords
from ehkafka.recovery.letters.letters import Letters
from ehkafka.recovery.pending import PendingAnswers
from ehkafka.recovery.policy import DeadLetter
from ehkafka.recovery.wiring import check_recovery
from ehkafka.run.pools import HandlerParts, Pools, cores_for, inbox_of, size_of
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.rate import Pace

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.intake.until_caught_up import CatchUpEnds
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.outputs.sender import OutputSender
    from ehkafka.positions.finder import IsDisproved
    from ehkafka.positions.start import Start
    from ehkafka.records import Record
    from ehkafka.run.at_least_once import AtLeastOnce
    from ehkafka.run.exactly_once import ExactlyOnce
    from ehkafka.run.log_identity import LogIdentity
    from ehkafka.run.mirroring import Mirroring
    from ehkafka.run.options import AppOptions
    from ehkafka.run.until import Until
    from ehkafka.settings import Drain, Settings
    from ehkafka.telemetry.bus import EventBus

    AnyDelivery: TypeAlias = AtLeastOnce | ExactlyOnce


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """What the parts of one run have in common."""

    app: AppOptions
    bus: EventBus
    fail: Callable[[EhkafkaError], None]
    worker_died: Callable[[BaseException], None]
    user_code_failed: Callable[[str, BaseException], None]
    exit_now: Callable[[], bool]
    is_stopping: Callable[[], bool] = lambda: False
    # Hears of a handler that calls `App.stop` in a worker process: what is to be drained, and the time.
    stop_from_child: Callable[[Drain | bool | None, float | None], None] = lambda _drain, _timeout_s: None
    stop_words: StopWords = STOP_WORDS
    # Whether a record may be left without an outcome until the next start.
    may_hold: bool = True

    def delivery(self, sender_of: Callable[[], OutputSender] | None = None) -> AnyDelivery | None:
        """Return what sends outputs and dead letters to topics, not started; None if none is sent.

        `sender_of` is called if any exists, and may return a sender that runs. Raises
        `ConfigurationError`.
        """
        from ehkafka.handlers.output_types import check_output_types  # noqa: PLC0415 - as the app starts

        check_output_types(self.app.specs)
        if self.app.settings.exactly_once:
            from ehkafka.run.exactly_once import ExactlyOnce  # noqa: PLC0415 - few apps have it

            return ExactlyOnce(
                self.app,
                emit=self.bus.emit,
                fatal=self.fail,
                on_death=self.worker_died,
                is_stopping=self.is_stopping,
            )
        if not any(spec.to or _letter_topic(spec) for spec in self.app.specs):
            return None
        from ehkafka.run.at_least_once import AtLeastOnce  # noqa: PLC0415 - few apps have outputs

        properties = letter_properties(self.app.endpoint, self.app.settings.consumer)
        for advice in producer_advice(self.app.endpoint, properties):
            self.bus.emit(advice)
        return AtLeastOnce(self.app, emit=self.bus.emit, on_death=self.worker_died, sender_of=sender_of)

    def letters(self, delivery: AnyDelivery | None) -> Letters:
        """Return what makes the targets of dead letters. Raises `ConfigurationError`."""
        check_recovery(self.app.specs, self.app.settings.on_parked_full)
        return Letters(
            None if delivery is None else delivery.letters_to,
            emit=self.bus.emit,
            history=self.app.history,
            clock=self.app.clock,
        )

    def messages(self) -> OwnProducer:
        """Return what sends for `app.producer`, not opened. Raises `ConfigurationError`."""
        return OwnProducer(
            self.app.endpoint, self.app.settings, emit=self.bus.emit, on_death=self.worker_died
        )

    def route(self, spec: HandlerSpec, letters: Letters, delivery: Delivery | None = None) -> Route:
        """Return a handler with its inboxes and workers."""
        if is_batch(spec):
            spec.check_backlog(self.app.settings)
        make_record = record_type(spec.headers, event_hubs=self.app.endpoint.is_event_hubs)
        hub: Hub
        outlet = None
        if delivery is not None and spec.to:
            from ehkafka.run.outlets import make_outlet  # noqa: PLC0415 - few apps have outputs

            hold = lambda *of: hub.hold_key(*of)  # noqa: E731, PLW0108 - the hub is made below
            outlet = make_outlet(self, delivery, spec, letters, make_record, hold)
            make_record = sending_type(make_record, outlet)
        keys = KeyReader(spec.order_by, null_key=spec.null_key, wrap=None if spec.raw else make_record)
        hub = Hub(self._inboxes(spec, keys), self.app.clock.now_s, self._pace(spec))
        failures = self._failures(spec, hub, letters, make_record)
        if isinstance(spec.on_failure, DeadLetter):
            hub.inboxes.waiting.divert = failures.divert
        deferrals = PendingAnswers(
            answer=hub.answer,
            failures=failures,
            emit=self.bus.emit,
            history=self.app.history,
            clock=self.app.clock.now_s,
            is_running=hub.is_running,
        )
        if outlet is not None:
            deferrals.on_end = outlet.answered
        parts = HandlerParts(hub, keys, failures, deferrals, make_record, outlet)
        workers, attempts = self._pools.pool(spec, parts)
        name = f"{spec.name}({', '.join(spec.topics)})"
        opening = (_open_instance(spec), _close_instance) if spec.is_class else (None, None)
        own = (spec.name, attempts, deferrals, *opening, spec.deadline_s or 0.0, spec.auto, failures.attempts)
        return Route(name, spec.topics, hub, keys, workers, *own)

    def _inboxes(self, spec: HandlerSpec, keys: KeyReader) -> Inboxes:
        """Return a handler's inboxes. Keys may stay unread where no code of the user's reads or sets them."""
        # Child processes run at the same time whatever the calls: one alone would leave the cores to nothing.
        is_apart = isinstance(spec.workers, Processes)
        read_keys = None if keys.calls_user_code or spec.raw or is_apart else keys.keys
        number, kind, cores = size_of(spec), inbox_of(spec), cores_for(spec)
        return Inboxes(number, spec.scope, make_inbox=kind, read_keys=read_keys, cores=cores)

    @property
    def _pools(self) -> Pools:
        return Pools(
            app=self.app,
            emit=self.bus.emit,
            worker_died=self.worker_died,
            stop_from_child=self.stop_from_child,
        )

    def _failures(
        self,
        spec: HandlerSpec,
        hub: Hub,
        letters: Letters,
        make_record: type[Record],
    ) -> Failures:
        return Failures(
            handler=spec.name,
            policy=spec.on_failure,
            retry=spec.retry,
            emit=self.bus.emit,
            fatal=self.fail,
            ask=self.app.on_error,
            raw=spec.raw,
            make_record=make_record,
            group=self.app.settings.group,
            post_letter=letters.of_records(spec.on_failure, hub.answer),
            finished_records=hub.count_finished,
            history=self.app.history,
            now_s=self.app.clock.wall_s,
            words=self.stop_words,
        )

    def context(
        self,
        logs: LogIdentity,
        mirroring: Mirroring,
        beyond: Callable[[IsDisproved], IsDisproved] | None = None,
        delivery: AnyDelivery | None = None,
    ) -> IntakeContext:
        """Return the poll thread's collaborators. `beyond` may disprove more than the watch over the logs."""
        app, settings, bus, now_s = self.app, self.app.settings, self.bus, self.app.clock.now_s
        is_event_hubs = app.endpoint.is_event_hubs
        ledger = CommitLedger(
            commit_pacing(settings, is_event_hubs=is_event_hubs), unsays_nothing=bool(settings.exactly_once)
        )
        saver = self._saver(ledger)
        if delivery is not None:
            saver.lowest = delivery.lowest
        epochs = Epochs()
        owned = OwnedPartitions(saver)
        log_watch = logs.watch(owned, time.monotonic)
        committer = Committer(
            ledger,
            clock=now_s,
            emit=bus.emit,
            fatal=self.fail,
            history=app.history,
            saver=saver,
            commits=CONSUMER_COMMITS if delivery is None else delivery.commits(ledger, epochs.current),
        )
        mirror = mirroring.join(logs, committer)
        lookups = Lookups(
            disproved=log_watch.disproved if beyond is None else beyond(log_watch.disproved),
            evidence=mirror.evidence,
            without_commit=mirror.start.find,
            is_known=mirror.start.is_known,
        )
        if delivery is not None:
            lookups = replace(lookups, undecided=delivery.undecided, is_old=delivery.is_old)
        return IntakeContext(
            clock=now_s,
            emit=bus.emit,
            count=bus.count,
            fatal=self.fail,
            exit_now=self.exit_now,
            flow=FlowControl(_flow_limits(settings)),
            ledger=ledger,
            committer=committer,
            positions=PositionFinder(
                start_of(app),
                emit=bus.emit,
                count=bus.count,
                on_out_of_range=settings.on_out_of_range,
                lookups=lookups,
            ),
            on_out_of_range=settings.on_out_of_range,
            on_parked_full=settings.on_parked_full,
            ages=self._age_limits(),
            asker=logs.bounds_asker,
            log_watch=log_watch,
            hook_threads=HookThreads(self.user_code_failed, bus.emit, now_s),
            hooks=app.partition_hooks,
            # What the brokers do goes by their time.
            throttle=Throttle(time.monotonic, bus.emit),
            contact=Contact(time.monotonic, settings.unreachable_s),
            # A drain that outlives the poll interval would make the group drop this member in mid-revoke.
            drain_s=settings.drain_used_s(int(app.consumer_properties()["max.poll.interval.ms"])),
            idle_s=settings.idle_s,
            stuck_s=settings.stuck_s,
            cooperative=settings.assignor == "cooperative-sticky",
            history=app.history,
            catch_up_ends=None if app.until is None else _catch_up_ends(app.until, bus, now_s),
            restore=Restore(bus.emit, sources=mirror.ranges),
            on_epoch_begin=mirror.on_epoch_begin,
            on_epoch_end=mirror.on_epoch_end,
            owned=owned,
            delivery=delivery,
            epochs=epochs,
        )

    def _saver(self, ledger: CommitLedger) -> ProgressSaver:
        settings = self.app.settings
        what = metadata_bytes_max(is_event_hubs=self.app.endpoint.is_event_hubs), self.bus.emit
        if not settings.exactly_once:
            return ProgressSaver(*what, self.app.clock.now_s)
        from ehkafka.transactions.saving import TransactionSaver  # noqa: PLC0415 - as for transactions

        return TransactionSaver(*what, self.app.clock.now_s, ledger.acknowledged)

    def _age_limits(self) -> AgeLimits | None:
        limits = {
            topic: limit.total_seconds()
            for spec in self.app.specs
            for topic in spec.topics
            if (limit := spec.max_age or self.app.settings.max_age) is not None
        }
        if not limits:
            return None
        return AgeLimits(limits, emit=self.bus.emit, count=self.bus.count, wall_clock=self.app.clock.wall_s)

    def _pace(self, spec: HandlerSpec) -> Pace | None:
        if spec.rate_limit is None:
            return None
        return Pace(spec.rate_limit, self.app.clock.now_s)


def start_of(app: AppOptions) -> Callable[[str], Start]:
    """Return where a topic's partitions without a commit begin. Raises `ConfigurationError`."""
    start = app.settings.start
    check_start_topics(start, app.topics)
    starts = {topic: spec.start for spec in app.specs for topic in spec.topics if spec.start is not None}
    return lambda topic: starts.get(topic, start)


def _flow_limits(settings: Settings) -> FlowLimits:
    return FlowLimits(
        settings.backlog_records_max,
        settings.backlog_bytes_max,
        settings.consume_records_max,
        settings.parked_records_max,
        settings.parked_bytes_max,
    )


def _catch_up_ends(until: Until, bus: EventBus, now_s: Callable[[], float]) -> CatchUpEnds:
    from ehkafka.intake.until_caught_up import CatchUpEnds  # noqa: PLC0415 - most runs have no end

    return CatchUpEnds(until.ends, emit=bus.emit, clock=now_s)


def _open_instance(spec: HandlerSpec) -> Callable[[Epoch], None]:
    """Return what gives an epoch its instance of a class handler. Runs on the hook thread."""

    def open_instance(epoch: Epoch) -> None:
        instance = spec.function()
        epoch.context = instance
        if (opens := getattr(instance, "open", None)) is not None:
            opens(epoch.partition)

    return open_instance


def _close_instance(epoch: Epoch, reason: str) -> None:
    instance, epoch.context = epoch.context, None
    if instance is not None and (closes := getattr(instance, "close", None)) is not None:
        closes(reason)


def _letter_topic(spec: HandlerSpec) -> str | None:
    policy = spec.on_failure
    return policy.to if isinstance(policy, DeadLetter) and isinstance(policy.to, str) else None
