"""The parts of the poll thread share this one object; it is complete before the thread starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.intake.owned import OwnedPartitions
from ehkafka.positions.restore import Restore

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import CounterName, Event
    from ehkafka.events.history import History
    from ehkafka.intake.contact import Contact
    from ehkafka.intake.flow import FlowControl
    from ehkafka.intake.hook_threads import HookThreads
    from ehkafka.intake.log_watch import LogWatch
    from ehkafka.intake.max_age import AgeLimits
    from ehkafka.intake.throttle import Throttle
    from ehkafka.intake.until_caught_up import CatchUpEnds
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.positions.finder import PositionFinder
    from ehkafka.positions.log_asker import LogAsker
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from ehkafka.settings import Settings


@dataclass(frozen=True, slots=True)
class Brokers:
    """The state of brokers and logs, and the parts that ask them."""

    throttle: Throttle
    contact: Contact
    # Asks where logs begin and end. These are None where nothing reads on in the background, as on Spark.
    asker: LogAsker | None = None
    log_watch: LogWatch | None = None


@dataclass(frozen=True, slots=True)
class EpochSetup:
    """The positions at which epochs begin, and the functions that are called when they begin and end."""

    positions: PositionFinder
    restore: Restore = field(default_factory=Restore)
    # Called with each epoch's begin, with the group's commit if there is one, and end; must not block.
    on_epoch_begin: Callable[[TopicPartition, int, int | None], None] = lambda _partition, _epoch, _at: None
    on_epoch_end: Callable[[TopicPartition, int], None] = lambda _partition, _epoch: None
    # None in a run that does not end once it has caught up.
    catch_up_ends: CatchUpEnds | None = None


@dataclass(frozen=True, slots=True)
class IntakeContext:
    """The poll thread's parts: complete when made, and none is replaced."""

    clock: Callable[[], float]
    emit: Callable[[Event], None]
    count: Callable[[CounterName, int], None]
    # Ends the app with that error; safe to call from any thread, more than once: the first one counts.
    fatal: Callable[[EhkafkaError], None]
    # True once the user asked a second time: wait for nothing.
    exit_now: Callable[[], bool]
    # Of these, `drain_s` is what a revoke may take.
    settings: Settings
    brokers: Brokers
    begins: EpochSetup
    flow: FlowControl
    ledger: CommitLedger
    committer: Committer
    hook_threads: HookThreads
    # None when no handler has a limit: then no timestamp is looked at.
    ages: AgeLimits | None = None
    history: History | None = None
    # None where no handler sends anything.
    delivery: Delivery | None = None
    owned: OwnedPartitions = field(default_factory=OwnedPartitions)
