"""What a simulated member's back-pressure sees: its partitions, its one handler, and a client that is paused.

One object is the poll thread's context, its owned partitions and its client: the real `Backpressure` asks it
what it asks those.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.positions.log_states import LogStates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Consumer
    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.member import SimulatedMember


class _Owned(NamedTuple):
    route: Any
    epoch: Epoch


class SimulatedIntake:
    """One member's."""

    # What handlers send; None: nothing that is waited for.
    delivery: Any = None

    def __init__(self, member: SimulatedMember) -> None:
        plan = member.world.plan
        self._member = member
        self.ledger: CommitLedger = member.ledger
        self.workers = SimpleNamespace(size=plan.workers)
        self.as_route: Any = SimpleNamespace(name="simulated", hub=member.hub, workers=self.workers)
        self.flow = FlowControl(
            FlowLimits(
                plan.backlog_records_max,
                consume_records_max=plan.consume_records_max,
                parked_records_max=plan.parked_records_max,
            )
        )
        self.as_context = cast("IntakeContext", self)
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
        return _Owned(self.as_route, self._member.owned[partition])

    def values(self) -> list[_Owned]:
        """Return the partitions with their route."""
        return [_Owned(self.as_route, epoch) for epoch in self._member.owned.values()]

    @property
    def logs(self) -> LogStates:
        """Where logs end: a member's broker does not tell."""
        return LogStates()

    def epochs(self) -> Iterator[Epoch]:
        """Return the current epochs."""
        return iter(self._member.owned.values())

    # The client. What is paused is not fetched, see `SimulatedMember`; its position stays where it is.

    def pause(self, partitions: list[KafkaPartition]) -> None:
        """Nothing to do: the member looks at the flow control."""

    def resume(self, partitions: list[KafkaPartition]) -> None:
        """Nothing to do, as for a pause."""

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        """Return that a partition is where it was."""
        return partitions

    def seek(self, partition: KafkaPartition) -> Any:
        """Never called: no position has moved."""
        raise AssertionError(f"no seek is needed to {partition}")
