"""A record whose call failed, and `Failures` whose events are kept."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.lanes.decision import Attempt
from ehkafka.lanes.epoch import Epoch
from ehkafka.records import TopicPartition
from ehkafka.recovery.failures import Failures
from ehkafka.recovery.policy import Stop
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage


class Bench:
    """A record whose call failed, and `Failures` that keeps what failed."""

    def __init__(self) -> None:
        self.epoch = Epoch(TopicPartition("t", 0), 1, {})
        self.attempt = self.attempt_of(SimulatedMessage("t", 0, 7, b"k", b"value"))
        self.events = Events()
        self.failures: list[Any] = []
        self.letters: list[tuple[Any, Any]] = []

    def attempt_of(self, message: Any, number: int = 1, asked: int = 0, **changed: Any) -> Attempt:
        """Return a call of the handler for a message."""
        key = changed.get("key", message.key())
        return Attempt((message, key, len(message), self.epoch), number, asked)

    def make_failures(self, **options: Any) -> Failures:
        """Return a failures, by default with the policy Stop()."""
        chosen = {"policy": Stop(), "handler": "handle", "group": "g", "chance": lambda: 0.5, **options}
        return Failures(emit=self.events.append, fatal=self.failures.append, post_letter=self.post, **chosen)

    def post(self, ticket: Any, letter: Any) -> None:
        """Be the sender of letters."""
        self.letters.append((ticket, letter))


@pytest.fixture
def bench() -> Bench:
    """Return a bench with an attempt at t[0]@7, key k."""
    return Bench()
