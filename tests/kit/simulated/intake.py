"""What a simulated member's back-pressure sees: its partitions, its one handler, and a client that is paused.

One object stands for the poll thread's context, the handler's route and its exchange: the real `Backpressure`
asks it what it asks those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.positions.log_book import LogBook
from ehkafka.workers.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from confluent_kafka import Consumer
    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.member import SimulatedMember


class _Owned(NamedTuple):
    route: SimulatedIntake
    assignment: Assignment


class SimulatedIntake:
    """One member's."""

    name = "simulated"
    waits_for_more = False
    # What handlers send; None: nothing that anybody waits for.
    outputs: Any = None
    # Of an exchange, over this object's dispatcher.
    ready_records = Exchange.ready_records
    lanes_at_hand = Exchange.lanes_at_hand
    takes_all = Exchange.takes_all
    has_chunks_to_spread = Exchange.has_chunks_to_spread
    has_chunks_waiting = Exchange.has_chunks_waiting

    def __init__(self, member: SimulatedMember) -> None:
        plan = member.world.plan
        self._member = member
        self.dispatcher: Dispatcher = member.dispatcher
        self.ledger: CommitLedger = member.ledger
        self.mean_s = plan.handler_s
        self.size = plan.workers
        self.flow = FlowControl(
            FlowLimits(
                plan.backlog_records_max,
                consume_records_max=plan.consume_records_max,
                parked_records_max=plan.parked_records_max,
            )
        )

        self.as_context = cast("IntakeContext", self)
        self.as_route = cast("Route", self)
        self.as_client = cast("Consumer", self)

    # The context.

    def clock(self) -> float:
        """Return the virtual time."""
        return self._member.world.clock.now_s()

    def emit(self, event: object) -> None:
        """Note an event in the simulation's story."""
        self._member.world.note(self._member.name, type(event).__name__, event)

    @property
    def owned(self) -> SimulatedIntake:
        """What it owns: itself."""
        return self

    # What it owns.

    def __len__(self) -> int:
        return len(self._member.owned)

    def __getitem__(self, partition: TopicPartition) -> _Owned:
        return _Owned(self, self._member.owned[partition])

    def values(self) -> list[_Owned]:
        """Return the partitions with their route."""
        return [_Owned(self, assignment) for assignment in self._member.owned.values()]

    @property
    def logs(self) -> LogBook:
        """Where logs end: a member's broker does not tell."""
        return LogBook()

    def assignments(self) -> Iterator[Assignment]:
        """Return the current assignments."""
        return iter(self._member.owned.values())

    # The route and its exchange.

    @property
    def exchange(self) -> SimulatedIntake:
        """The exchange: itself."""
        return self

    @property
    def workers(self) -> SimulatedIntake:
        """The workers, of which the number counts: itself."""
        return self

    def locked(self) -> AbstractContextManager[Dispatcher]:
        """Hold the lock."""
        return self._member.locked()

    # The client. What is paused is not fetched, see `SimulatedMember`; its position is where it stands.

    def pause(self, partitions: list[KafkaPartition]) -> None:
        """Nothing to do: the member looks at the flow control."""

    def resume(self, partitions: list[KafkaPartition]) -> None:
        """Nothing to do, as for a pause."""

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        """Return that a partition stands where it is."""
        return partitions

    def seek(self, partition: KafkaPartition) -> Any:
        """Never called: no position has moved."""
        raise AssertionError(f"no seek is needed to where {partition} stands")


class LateIntake(SimulatedIntake):
    """The same where records get their lanes late."""

    takes_all = False
    has_chunks_to_spread = False

    def ready_records(self, enough: int) -> int:
        """Return how many records stand ready or wait."""
        assert self._member.late is not None
        return Exchange.ready_records(self, enough) + self._member.late.waiting_records(enough)  # type: ignore[arg-type]

    def lanes_at_hand(self, enough: int) -> int:
        """Return how many lanes stand ready or can be made."""
        assert self._member.late is not None
        return len(self.dispatcher.ready) + self._member.late.waiting_records(enough)
