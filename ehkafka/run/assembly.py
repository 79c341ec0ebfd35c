"""Assembly: builds the parts of one run from what the user registered and set.

Called by `Runtime` before any thread of the run exists. Opens nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ehkafka.intake.contact import Contact
from ehkafka.intake.context import Brokers, EpochSetup, IntakeContext
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.hook_threads import HookThreads
from ehkafka.intake.log_watch import LogWatch, OwnedLogs
from ehkafka.intake.max_age import AgeLimits
from ehkafka.intake.owned import OwnedPartitions
from ehkafka.intake.throttle import Throttle
from ehkafka.intake.until_caught_up import CatchUpEnds
from ehkafka.positions.finder import Lookups, PositionFinder
from ehkafka.positions.restore import Restore
from ehkafka.positions.start import check_start_topics
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger
from ehkafka.progress.pacing import commit_pacing
from ehkafka.progress.saving import ProgressSaver, metadata_bytes_max
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.transactions.saving import TransactionSaver

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.positions.finder import IsDisproved
    from ehkafka.positions.start import Start
    from ehkafka.progress.commit_transports import CommitTransport
    from ehkafka.run.at_least_once import AtLeastOnce
    from ehkafka.run.exactly_once import ExactlyOnce
    from ehkafka.run.log_identity import LogIdentity
    from ehkafka.run.mirroring import Mirroring, MirrorParts
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Drain, Settings
    from ehkafka.telemetry.bus import EventBus

    AnyDelivery: TypeAlias = AtLeastOnce | ExactlyOnce


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The values that all parts of one run share."""

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

    def context(
        self,
        logs: LogIdentity,
        mirroring: Mirroring,
        beyond: Callable[[IsDisproved], IsDisproved] | None = None,
        delivery: AnyDelivery | None = None,
        commits: CommitTransport | None = None,
    ) -> IntakeContext:
        """Return the poll thread's collaborators. `beyond` may disprove more than the watch over the logs.

        `commits` carries commits out where `delivery` does not; None: the consumer.
        """
        app, bus, now_s = self.app, self.bus, self.app.clock.now_s
        ledger = self._ledger()
        saver = self._saver(ledger)
        owned = OwnedPartitions(saver)
        if delivery is not None:
            saver.lowest, commits = delivery.lowest, delivery.commits(ledger, owned.numbers)
        log_watch = LogWatch(OwnedLogs(owned), logs.asker, time.monotonic)
        committer = self._committer(ledger, saver, commits)
        mirror = mirroring.join(logs, committer)
        disproved = log_watch.disproved
        lookups = _lookups(mirror, disproved if beyond is None else beyond(disproved), delivery)
        return IntakeContext(
            clock=now_s,
            emit=bus.emit,
            count=bus.count,
            fatal=self.fail,
            exit_now=self.exit_now,
            settings=self._settings(),
            ages=self.age_limits(),
            brokers=self._brokers(logs, log_watch),
            begins=self._begins(mirror, lookups),
            flow=FlowControl(FlowLimits.of(app.settings)),
            ledger=ledger,
            committer=committer,
            hook_threads=HookThreads(self.user_code_failed, bus.emit, now_s, app.partition_hooks),
            history=app.history,
            delivery=delivery,
            owned=owned,
        )

    def _ledger(self) -> CommitLedger:
        settings = self.app.settings
        pacing = commit_pacing(settings, is_event_hubs=self.app.endpoint.is_event_hubs)
        return CommitLedger(pacing, unsays_nothing=bool(settings.exactly_once))

    def _committer(
        self, ledger: CommitLedger, saver: ProgressSaver, commits: CommitTransport | None
    ) -> Committer:
        return Committer(
            ledger,
            clock=self.app.clock.now_s,
            emit=self.bus.emit,
            fatal=self.fail,
            history=self.app.history,
            saver=saver,
            commits=commits,
        )

    def _brokers(self, logs: LogIdentity, log_watch: LogWatch) -> Brokers:
        # What the brokers do goes by their time.
        now_s = time.monotonic
        return Brokers(
            throttle=Throttle(now_s, self.bus.emit),
            contact=Contact(now_s, self.app.settings.unreachable_s),
            asker=logs.bounds_asker,
            log_watch=log_watch,
        )

    def _settings(self) -> Settings:
        """Return the settings as the poll thread goes by them."""
        settings = self.app.settings
        # A drain that outlives the poll interval would make the group drop this member in mid-revoke.
        poll_ms = int(self.app.consumer_properties()["max.poll.interval.ms"])
        return replace(settings, drain_s=settings.drain_used_s(poll_ms))

    def _begins(self, mirror: MirrorParts, lookups: Lookups) -> EpochSetup:
        app, bus = self.app, self.bus
        on_out_of_range = app.settings.on_out_of_range
        finder = PositionFinder(
            start_of(app), emit=bus.emit, count=bus.count, on_out_of_range=on_out_of_range, lookups=lookups
        )
        return EpochSetup(
            finder,
            restore=Restore(bus.emit, source=mirror.ranges),
            on_epoch_begin=mirror.on_epoch_begin,
            on_epoch_end=mirror.on_epoch_end,
            catch_up_ends=None if app.until is None else CatchUpEnds(app.until.ends),
        )

    def _saver(self, ledger: CommitLedger) -> ProgressSaver:
        settings = self.app.settings
        what = metadata_bytes_max(is_event_hubs=self.app.endpoint.is_event_hubs), self.bus.emit
        if not settings.exactly_once:
            return ProgressSaver(*what, self.app.clock.now_s)
        return TransactionSaver(*what, self.app.clock.now_s, ledger.acknowledged)

    def age_limits(self) -> AgeLimits | None:
        """Return what finds records above the age of their topic; None where no topic has one."""
        limits = {
            topic: limit.total_seconds()
            for spec in self.app.specs
            for topic in spec.topics
            if (limit := spec.max_age or self.app.settings.max_age) is not None
        }
        if not limits:
            return None
        return AgeLimits(limits, emit=self.bus.emit, count=self.bus.count, wall_clock=self.app.clock.wall_s)


def start_of(app: AppOptions) -> Callable[[str], Start]:
    """Return where a topic's partitions without a commit begin. Raises `ConfigurationError`."""
    start = app.settings.start
    check_start_topics(start, app.topics)
    starts = {topic: spec.start for spec in app.specs for topic in spec.topics if spec.start is not None}
    return lambda topic: starts.get(topic, start)


def _lookups(mirror: MirrorParts, disproved: IsDisproved, delivery: AnyDelivery | None) -> Lookups:
    lookups = Lookups(
        disproved=disproved,
        evidence=mirror.evidence,
        without_commit=mirror.start.find,
        is_known=mirror.start.is_known,
    )
    if delivery is None:
        return lookups
    return replace(lookups, undecided=delivery.undecided, is_old=delivery.is_old)
