"""A lane with a failed head, and a desk that keeps what it told."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.records import TopicPartition
from ehkafka.recovery.desk import FailureDesk
from ehkafka.recovery.policy import Stop
from ehkafka.testing.simulated_message import SimulatedMessage


class Bench:
    """One lane with a worker, and a desk that is told of its failures."""

    def __init__(self) -> None:
        self.dispatcher = Dispatcher()
        self.assignment = self.dispatcher.assign(TopicPartition("t", 0), 1)
        self.lane = self.lane_of(SimulatedMessage("t", 0, 7, b"k", b"value"))
        self.events: list[Any] = []
        self.failures: list[Any] = []
        self.letters: list[tuple[Any, Any]] = []

    def lane_of(self, message: Any) -> Any:
        """Return a lane with a message as its head, lent to a worker."""
        self.dispatcher.receive(self.assignment, [message], [message.key()], 0.0)
        lane = self.dispatcher.begin()
        assert lane is not None
        return lane

    def desk(self, **options: Any) -> FailureDesk:
        """Return a desk, by default with the policy Stop()."""
        chosen = {"policy": Stop(), "handler": "handle", "group": "g", "chance": lambda: 0.5, **options}
        return FailureDesk(emit=self.events.append, fatal=self.failures.append, letters=self, **chosen)

    def post(self, ticket: Any, letter: Any) -> None:
        """Be the letter box."""
        self.letters.append((ticket, letter))


@pytest.fixture
def bench() -> Bench:
    """Return a bench with a head at t[0]@7, key k."""
    return Bench()
