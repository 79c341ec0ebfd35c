"""What the poll thread's parts share: one object, complete before the thread starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ehkafka.intake.epochs import Epochs
from ehkafka.intake.owned import OwnedPartitions, WaitingPartitions
from ehkafka.intake.watch import Standstill
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
    from ehkafka.intake.unreadable import Halted
    from ehkafka.intake.until_caught_up import CatchUpEnds
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.positions.finder import PositionFinder
    from ehkafka.positions.log_asker import LogAsker
    from ehkafka.progress.committer import Committer
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from ehkafka.settings import OnParkedFull, OutOfRange


@dataclass(slots=True)
class PartitionHooks:
    """The user's partition hooks; run on the hook thread, one after another."""

    on_assigned: Callable[[TopicPartition], None] | None = None
    on_revoked: Callable[[TopicPartition, str], None] | None = None
    on_lost: Callable[[TopicPartition], None] | None = None
    on_idle: Callable[[TopicPartition], None] | None = None


@dataclass(frozen=True, slots=True)
class IntakeContext:
    """Collaborators and settings of the poll thread: complete when made, and none is replaced."""

    clock: Callable[[], float]
    emit: Callable[[Event], None]
    count: Callable[[CounterName, int], None]
    # Ends the app with that error; safe to call from any thread, more than once: the first one counts.
    fatal: Callable[[EhkafkaError], None]
    # True once the user asked a second time: wait for nothing.
    exit_now: Callable[[], bool]
    flow: FlowControl
    ledger: CommitLedger
    committer: Committer
    positions: PositionFinder
    hook_threads: HookThreads
    hooks: PartitionHooks
    throttle: Throttle
    contact: Contact
    drain_s: float
    idle_s: float
    stuck_s: float
    cooperative: bool
    on_out_of_range: OutOfRange = "stop"
    on_parked_full: OnParkedFull = "pause_partition"
    # None when no handler has a limit: then no timestamp is looked at.
    ages: AgeLimits | None = None
    # Asks where logs begin and end. These are None where nothing reads on in the background, as on Spark.
    asker: LogAsker | None = None
    log_watch: LogWatch | None = None
    history: History | None = None
    restore: Restore = field(default_factory=Restore)
    # Called with each epoch's begin, with the group's commit if there is one, and end; must not block.
    on_epoch_begin: Callable[[TopicPartition, int, int | None], None] = lambda _partition, _epoch, _at: None
    on_epoch_end: Callable[[TopicPartition, int], None] = lambda _partition, _epoch: None
    # Partitions whose share of the parked budget is full, with the key that has most of it. Poll thread
    # writes, the snapshot reads.
    parked_full: dict[TopicPartition, str] = field(default_factory=dict)
    # Partitions of which nothing can be read from an offset on. Written and read as `parked_full`.
    unreadable: dict[TopicPartition, Halted] = field(default_factory=dict)
    # Partitions of ours of which it is not known yet where they begin, and why. Likewise.
    waiting: WaitingPartitions = field(default_factory=WaitingPartitions)
    # None in a run that does not end once it has caught up.
    catch_up_ends: CatchUpEnds | None = None
    standstill: Standstill = field(default_factory=Standstill)
    owned: OwnedPartitions = field(default_factory=OwnedPartitions)
    # None where no handler sends anything.
    delivery: Delivery | None = None
    epochs: Epochs = field(default_factory=Epochs)
