"""What is paused, over the ends of epochs: what is kept is taken over, the rest is forgotten in time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.intake.by_hand import ByHand
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.owned import OwnedPartition
from ehkafka.records import TopicPartition
from ehkafka.run.steer.pausing import Paused, Pausing
from ehkafka.workers.hub import Hub
from tests.kit.inbox_bench import InboxBench

P0 = TopicPartition("t", 0)
PARTITION = Paused("route", P0, None, is_key=False)
KEY = Paused("route", P0, b"a", is_key=True)


class World:
    """One handler with one partition, whose epochs a test ends and begins."""

    def __init__(self) -> None:
        self.bench = InboxBench()
        self.now_s = 0.0
        hub = Hub(self.bench.inboxes, lambda: self.now_s)
        self.route: Any = SimpleNamespace(name="route", hub=hub)
        self.flow = FlowControl(FlowLimits())
        self.context: Any = SimpleNamespace(owned={}, flow=self.flow, clock=lambda: self.now_s)
        self.pausing = Pausing(self.context, [self.route], ByHand(self.context))
        self.begin()

    def begin(self) -> None:
        """End the epoch, if there is one, and begin the next before anything looks."""
        if (owned := self.context.owned.pop(P0, None)) is not None:
            self.bench.inboxes.ending.end([owned.epoch])
            self.flow.forget(P0)
        self.context.owned[P0] = OwnedPartition(self.route, self.bench.assign(0))

    def is_paused(self) -> bool:
        """Whether flow control keeps the partition paused."""
        return P0 in self.flow.by_hand


@pytest.fixture
def world() -> World:
    """One that has been looked at."""
    world = World()
    world.pausing.check()
    return world


def test_a_pause_that_is_not_kept_is_forgotten_though_its_partition_came_back_at_once(world: World) -> None:
    """Else a stop and a start of the handler would leave the partition paused for ever."""
    world.pausing.pause(PARTITION, None, keep=False)
    world.begin()
    world.pausing.check()
    assert not world.is_paused()
    world.pausing.stop(world.route)
    assert world.is_paused()
    world.pausing.start(world.route)
    assert not world.is_paused()


@pytest.mark.parametrize("what", [PARTITION, KEY])
def test_what_is_kept_goes_over_with_its_time(world: World, what: Paused) -> None:
    """It ends when it would have ended."""
    world.pausing.pause(what, 10.0, keep=True)
    world.begin()
    assert not world.pausing.is_paused(what)
    world.now_s = 9.0
    world.pausing.check()
    assert world.pausing.is_paused(what)
    world.now_s = 10.0
    assert world.pausing.check() == [what]
    assert not world.pausing.is_paused(what)


def test_the_time_of_a_pause_that_went_with_its_epoch_ends_no_later_one(world: World) -> None:
    """The new one has none."""
    world.pausing.pause(KEY, 10.0, keep=False)
    world.begin()
    world.pausing.check()
    world.pausing.pause(KEY, None, keep=False)
    world.now_s = 20.0
    assert world.pausing.check() == []
    assert world.pausing.is_paused(KEY)


def test_new_partitions_of_a_stopped_handler_are_not_received(world: World) -> None:
    """Nor do its keys start."""
    world.pausing.stop(world.route)
    world.begin()
    world.pausing.check()
    assert world.is_paused()
    world.bench.receive(world.context.owned[P0].epoch, "a0")
    assert world.bench.begin() is None
