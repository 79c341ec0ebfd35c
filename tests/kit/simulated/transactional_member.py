"""A member that sends exactly once: the real outputs, search, loop and commits over simulated transactions.

The transactions' thread runs as it is, on a thread that the simulation waits for. What the poll thread does
of it in `Membership` and `ExactlyOnce` is done here in the same order, over several polls.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.progress.commit_transports import as_offset
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.run.exactly_once import READ_BACK_S, SLACK_S
from ehkafka.transactions import group_commits, handing, loop, producer
from ehkafka.transactions.committing import UNWANTED_S, TransactionalCommits
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.group_commits import GroupCommits
from ehkafka.transactions.held import HeldOutputs
from ehkafka.transactions.loop import TransactionLoop
from ehkafka.transactions.producer import TransactionalProducer
from ehkafka.transactions.saving import TransactionSaver
from tests.kit.simulated.group import CommitRefusal
from tests.kit.simulated.handover import Handover, _State
from tests.kit.simulated.member import SimulatedMember
from tests.kit.simulated.outputs import SimulatedOutlet
from tests.kit.simulated.ranges import FinishedOffsets
from tests.kit.simulated.side_thread import SideThread
from tests.kit.simulated.transactional_client import SimulatedTransactional
from tests.kit.simulated.transactions import TransactionalGroup, covered_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.transactions.committing import SendOffsets
    from tests.kit.simulated.member import Refusals as Refused
    from tests.kit.simulated.simulator import Simulation
    from tests.kit.simulated.transactions import Stored

_REFUSED_FOR = {
    KafkaError.OFFSET_METADATA_TOO_LARGE: CommitRefusal.METADATA,
    KafkaError.UNKNOWN_MEMBER_ID: CommitRefusal.UNKNOWN_MEMBER,
    KafkaError.ILLEGAL_GENERATION: CommitRefusal.OLD_GENERATION,
}
_NO_CREDENTIAL: Any = SimpleNamespace(
    start=lambda _client: None, stop=lambda: None, apply=lambda: None, check_now=lambda: None
)


class MemberTransactions:
    """One member's. What begins with an underscore there is what its thread calls."""

    def __init__(self, member: TransactionalMember) -> None:
        world = member.world
        self._member, self._world, self._rng = member, world, world.transactions.rng
        self.outputs = Unacknowledged(waits=False)
        self._id = f"id of {member.name}"
        self.outlet = SimulatedOutlet(
            member.name, self.outputs, world.clock, self._rng, world.plan.refuse_share
        )
        self.held = HeldOutputs(self.outputs, world.clock.now_s)
        self.side = SideThread(member, self._main)
        self.group = GroupCommits(self._committed, world.clock.now_s)
        self.group.epochs = member.epochs.numbers
        self._carrier = TransactionLoop(
            self.held,
            TransactionalProducer(
                self._open_client,
                emit=self._emit,
                make_watch=lambda: _NO_CREDENTIAL,
                transactional_id=self._id,
                timeout_s=world.plan.transaction_timeout_s,
                is_stopping=lambda: False,
            ),
            emit=self._emit,
            fatal=lambda error: world.problem(f"{member.name}: {error}"),
            on_death=lambda error: world.problem(f"{member.name}: {error!r}"),
            group=self.group,
            is_id_shared=False,
            busy=(),
            timeout_s=world.plan.transaction_timeout_s,
        )
        self._wait_s = world.plan.transaction_timeout_s + SLACK_S
        self.commits = TransactionalCommits(self._carrier, member.ledger.acknowledged, wait_s=self._wait_s)
        # What hears of the commit under way, and of those that a revoke waits for.
        self._on_answer: Callable[[Refused], None] | None = None
        self._awaited: dict[SendOffsets, Callable[[Refused], None]] = {}
        self._sent: Mapping[TopicPartition, Position] = {}

    # The poll thread.

    def begin(
        self, positions: Mapping[TopicPartition, Position], on_answer: Callable[[Refused], None]
    ) -> None:
        """Start a commit; its answer comes with a later poll."""
        try:
            self.commits.begin(self._member.as_consumer, positions)
        except KafkaException as refused:
            self._answer(on_answer, positions, refused.args[0])
            return
        self._check_undecided(positions)
        self._on_answer, self._sent = on_answer, positions
        self.side.wake()

    def begin_awaited(
        self, positions: Mapping[TopicPartition, Position], on_answer: Callable[[Refused], None]
    ) -> None:
        """Do the same for one that a revoke waits for, as `TransactionalCommits.ready` does."""
        try:
            request = self.commits._request(self._member.as_consumer, positions)
        except KafkaException as refused:
            self._answer(on_answer, positions, refused.args[0])
            return
        self._carrier.submit(request)
        self._awaited[request] = on_answer
        self.side.wake()
        self._world.clock.call_after(self._wait_s, lambda: self._take_back(request))

    def _take_back(self, request: SendOffsets) -> None:
        if request in self._awaited:
            request.is_unwanted = True
            self._world.transactions.seen["taken back"] += 1
            self.side.wake()
            self._world.clock.call_after(UNWANTED_S, lambda: self._give_up(request))

    def _give_up(self, request: SendOffsets) -> None:
        on_answer = self._awaited.pop(request, None)
        if on_answer is not None:
            self._world.transactions.seen["not waited for"] += 1
            self._answer(on_answer, request.positions, KafkaError(KafkaError._TIMED_OUT))

    def _answer(
        self,
        on_answer: Callable[[Refused], None],
        positions: Iterable[TopicPartition],
        error: KafkaError | None,
    ) -> None:
        refused: Refused = {}
        if error is not None:
            refused = dict.fromkeys(positions, _REFUSED_FOR.get(error.code(), CommitRefusal.TIMED_OUT))
        self._member.answers.append(lambda: on_answer(refused))

    def _check_undecided(self, positions: Mapping[TopicPartition, Position]) -> None:
        """What was refused before positions were fixed is not in them before it is decided."""
        coverage = Coverage(positions)
        for suspect in filter(self.held.refusals.waits, self.held.refusals._waiting):
            epoch, offset = suspect[EPOCH], suspect[MESSAGE].offset()
            cover = coverage.of(epoch)
            if cover is not None and cover.has(offset):
                self._world.transactions.seen["undecided"] += 1
                self._world.problem(
                    f"{epoch.partition}@{offset} is committed, and its output waits for a decision"
                )

    def lost(self) -> None:
        """Have what is under way aborted, without a long wait."""
        self.commits.end_unwanted(0.0)
        for request in self._awaited:
            request.is_unwanted = True
        self._awaited.clear()
        self.side.wake()

    def end(self, epochs: Sequence[Epoch]) -> None:
        """Drop what is left of epochs that have ended."""
        self.held.end(epochs)

    def stop(self) -> None:
        """End with the process."""
        self.side.close()

    def must_wait(self, partition: TopicPartition, stored: Stored | None) -> bool:
        """Tell whether an epoch must not begin yet, as `PositionFinder` does."""
        seen = self._world.transactions.seen
        if partition in self._carrier.undecided():
            seen["waited for a decision"] += 1
            return True
        is_old = self.group.is_old(partition, stored and _entry(partition, stored))
        seen["waited for a newer commit"] += is_old
        return is_old

    # The transactions' thread.

    def _main(self) -> None:
        """Do what `TransactionLoop._main` does."""
        requests = self._carrier._requests
        while True:
            while not requests:
                self.side.park()
            request = requests[0]
            self._carrier._carry_out(request)
            requests.popleft().done.set()
            self._check_outcome(request)
            self._world.transactions.seen["aborted" if request.error else "acknowledged"] += 1
            on_answer = self._awaited.pop(request, None)
            if on_answer is not None:
                self._answer(on_answer, request.positions, request.error)
            else:
                self._member.answers.append(self._take_answers)

    def _check_outcome(self, request: SendOffsets) -> None:
        """What counts as committed is, or says nothing new; a member that is out may find another's."""
        asked = {p: (one.next_offset, one.metadata) for p, one in request.positions.items()}
        group, decided = self._world.group, self._world.transactions.decided[self._id]
        assert isinstance(group, TransactionalGroup)
        if request.error is not None or asked in decided or not group.knows(self._member.name):
            return
        for partition, said in asked.items():
            offsets = self._world.log.offsets(partition)
            if not covered_by(said, offsets) <= covered_by(group.committed.get(partition), offsets):
                self._world.problem(f"{self._id} takes {partition} {said} for committed")

    def _take_answers(self) -> None:
        for error, _ in self.commits.answers():
            on_answer, self._on_answer = self._on_answer, None
            assert on_answer is not None
            self._answer(on_answer, self._sent, error)

    def _open_client(self, callbacks: Mapping[str, Any], limit: Mapping[str, int]) -> Any:
        self._world.transactions.seen["producers"] += 1
        reported = callbacks["on_delivery"]
        return SimulatedTransactional(self._member, self.side, self._id, reported, limit)

    def _committed(self, partitions: Sequence[Any]) -> Sequence[Any]:
        """Return what the group has, once it is known."""
        self._world.transactions.seen["read back"] += 1
        ends_s = self._world.clock.now_s() + READ_BACK_S
        names = [TopicPartition(one.topic, one.partition) for one in partitions]
        transactions, name = self._world.transactions, self._member.name
        if partitions and transactions.answers_old(names[0], name):
            return [_entry(one, transactions.old(one)) for one in names]
        while any(map(self._world.transactions.is_unstable, names)):
            if self._world.clock.now_s() >= ends_s:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "unstable", False, True))
            self.side.sleep(0.02)
        self.side.sleep(self._rng.expovariate(1 / self._world.plan.network_s))
        return [_entry(one, self._world.group.committed.get(one)) for one in names]

    def _emit(self, event: object) -> None:
        self._world.transactions.seen[type(event).__name__] += 1
        self._world.note(self._member.name, type(event).__name__, event)


def _entry(partition: TopicPartition, stored: Stored | None) -> KafkaPartition:
    offset, text = stored or (OFFSET_INVALID, None)
    return as_offset(partition, Position(0, offset, None, text))


class TransactionalHandover(Handover):
    """The same with transactions: a revoke returns once they have ended, an assign waits for offsets."""

    _member: TransactionalMember
    # The assign callback waits for offsets of another's transaction.
    _is_assigning = False
    # What a coordinator that was cut off has answered for the assignment under way.
    _old: Mapping[TopicPartition, Stored | None] = {}

    @property
    def is_revoking(self) -> bool:
        """Tell whether partitions are being given back."""
        return self._state is _State.REVOKING

    def check(self) -> bool:
        """Do what the group asks for; the poll thread may hear later that it is out."""
        self._is_assigning = False
        group, name = self._world.group, self._member.name
        assert isinstance(group, TransactionalGroup)
        is_stable = self._state is _State.STABLE
        if is_stable and not group.knows(name) and self._world.transactions.rng.random() < 0.5:
            return True
        return super().check() and not self._is_assigning

    def _take_assignment(self) -> None:
        target = self._world.group.assignment(self._member.name)
        new = [one for one in target or () if one not in self._member.owned]
        transactions, name = self._world.transactions, self._member.name
        self._old = {one: transactions.old(one) for one in new if transactions.answers_old(one, name)}
        if any(map(transactions.is_unstable, [one for one in new if one not in self._old])):
            self._is_assigning = True
            transactions.seen["waited for stable offsets"] += 1
            return
        if any(self._member.transactions.must_wait(one, self._committed(one)) for one in new):
            self._is_assigning = True
            return
        super()._take_assignment()
        transactions.owners |= dict.fromkeys(new, name)
        self._member.is_known = True

    def _committed(self, partition: TopicPartition) -> Stored | None:
        return self._old[partition] if partition in self._old else super()._committed(partition)

    def _is_settled(self) -> bool:
        return self._member.ledger.in_flight is None

    def _end_revoke(self) -> None:
        self._member.transactions.end(list(self.leaving.values()))
        super()._end_revoke()

    def _lose_all(self) -> None:
        member = self._member
        epochs = list(member.owned.values())
        member.transactions.lost()
        super()._lose_all()
        member.transactions.end(epochs)
        member.is_known = False

    def _leave(self) -> None:
        super()._leave()
        self._member.transactions.stop()


class TransactionalMember(SimulatedMember):
    """A process of an app that sends exactly once."""

    handover: TransactionalHandover
    # Whether its client knows itself to be a member.
    is_known = False

    def __init__(self, world: Simulation, name: str, pid: int) -> None:
        super().__init__(world, name, pid)
        self.transactions = MemberTransactions(self)
        self.as_consumer: Any = self
        self.intake.delivery = self.transactions.outputs
        self.handover = TransactionalHandover(self)
        bytes_max = world.plan.saved_bytes_max if world.plan.saves_ranges else 0
        saver = TransactionSaver(bytes_max, None, lambda: 0.0, self.ledger.acknowledged)
        saver.lowest = self.transactions.held.refusals.lowest
        self.ranges = _JudgedByTheBroker(self)
        self.ranges._saver = saver
        self.ledger.unsays_nothing = True

    def consumer_group_metadata(self) -> bytes:
        """Return what its client says of its membership: none once it has heard that it is out."""
        group = self.world.group
        assert isinstance(group, TransactionalGroup)
        is_in = group.knows(self.name) or self.world.transactions.rng.random() < 0.3
        number, member_id = (self.generation, self.name) if self.is_known and is_in else (-1, "")
        return b"CGMDv2:" + struct.pack("=i", number) + f"group\0{member_id}\0\0".encode()

    def _ended(self, entry: Entry, outcome: str) -> None:
        self.transactions.outlet.end(entry, outcome)
        super()._ended(entry, outcome)

    def positions_of(
        self, partitions: Mapping[TopicPartition, Epoch], *, is_last: bool = True
    ) -> dict[TopicPartition, Position]:
        """Compute what these could commit; at a tick only of those that the next transaction may have."""
        positions = super().positions_of(partitions, is_last=is_last)
        return positions if is_last else dict(self.transactions.commits.chosen(positions))

    def carry_commit(
        self, positions: Mapping[TopicPartition, Position], on_answer: Callable[[Refused], None]
    ) -> None:
        """Make a transaction of a commit."""
        begins = self.transactions.begin_awaited if self.handover.is_revoking else self.transactions.begin
        begins(positions, on_answer)

    def confirm(self, sent: Mapping[TopicPartition, Position], refused: Refused) -> None:
        """Take the answer to a commit into account; the saver says less where it was too much."""
        super().confirm(sent, refused)
        if CommitRefusal.METADATA in refused.values():
            longest_bytes = max(len(position.metadata or "") for position in sent.values())
            self.ranges._saver.refused(longest_bytes)

    def _report_answer(self, sent: Mapping[TopicPartition, Position], refused: Refused) -> None:
        """Report no commit as its own that may be the next owner's: who is out may find the same there."""
        group = self.world.group
        assert isinstance(group, TransactionalGroup)
        others = {} if group.knows(self.name) else dict.fromkeys(sent, CommitRefusal.UNKNOWN_MEMBER)
        super()._report_answer(sent, {**others, **refused})

    def _check_watermark(self, partition: TopicPartition, next_offset: int) -> None:
        """Say nothing: a refused output takes a position back that was in no transaction."""


class _JudgedByTheBroker(FinishedOffsets):
    """What was said and was in no committed transaction may be taken back."""

    def _judge(self, place: tuple[TopicPartition, int], position: Position) -> None:
        pass


@contextmanager
def transactions_of(world: Simulation) -> Iterator[None]:
    """Let the transactions' threads live in virtual time, and end them all."""

    def sleep(seconds: float) -> None:
        side = world.transactions.running
        assert side is not None
        ends_s = world.clock.now_s() + seconds
        # Something may wake the thread before.
        while (left_s := ends_s - world.clock.now_s()) > 0:
            side.sleep(left_s)

    timing = SimpleNamespace(sleep=sleep, monotonic=world.clock.now_s)
    with ExitStack() as stack:
        for module in (loop, handing, producer, group_commits):
            stack.enter_context(mock.patch.object(module, "time", timing))
        # A thread more would not be one of the simulation's.
        for module in (loop, producer):
            at_once = mock.patch.object(module, "call_within", lambda call, _timeout_s, _is_over: call())
            stack.enter_context(at_once)
        try:
            yield
        finally:
            for side in world.transactions.sides:
                side.close()
