"""Commands on keys that wait for a call of an ended assignment, and on keys of a stopped handler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.errors import ActionRefusedError
from ehkafka.events import RecordSkipped
from ehkafka.intake.by_hand import ByHand
from ehkafka.intake.flow import FlowControl, FlowLimits
from ehkafka.intake.owned import OwnedPartition
from ehkafka.lanes.decision import AwaitHead
from ehkafka.records import TopicPartition
from ehkafka.run.steer.action import Action, ActionResult
from ehkafka.run.steer.key_actions import KeyActions
from ehkafka.run.steer.keys import on_hold
from ehkafka.run.steer.pausing import Pausing
from ehkafka.workers.hub import Hub
from tests.kit.inbox_bench import InboxBench

P0 = TopicPartition("t", 0)


class World:
    """One handler with one partition."""

    def __init__(self) -> None:
        self.bench = InboxBench()
        self.events: list[Any] = []
        hub = Hub(self.bench.inboxes, lambda: 0.0)
        keys = SimpleNamespace(calls_user_code=False)
        self.route: Any = SimpleNamespace(name="route", handler="work", hub=hub, keys=keys, deadline_s=0.0)
        flow = FlowControl(FlowLimits())
        self.context: Any = SimpleNamespace(owned={}, flow=flow, clock=lambda: 0.0)
        pausing = Pausing(self.context, [self.route], ByHand(self.context))
        self.actions = KeyActions(self.context, pausing, emit=self.events.append, history=None)
        self.begin()

    def begin(self) -> None:
        """End the epoch, if there is one, and begin the next."""
        if (owned := self.context.owned.pop(P0, None)) is not None:
            self.bench.inboxes.ending.end([owned.epoch])
        self.epoch = self.bench.assign(0)
        self.context.owned[P0] = OwnedPartition(self.route, self.epoch)

    def act(self, do: Any, name: str, **more: Any) -> ActionResult:
        """Do something to a key."""
        return self.actions.act(Action(do=do, target="key", name=name, **more))

    def skipped(self) -> list[int]:
        """Return the offsets that were reported as skipped."""
        return [event.offset for event in self.events if isinstance(event, RecordSkipped)]


@pytest.fixture
def world() -> World:
    """One whose call of offset 0 hangs, while its partition came back and has it again."""
    world = World()
    world.bench.receive(world.epoch, "a0 a1 b2")
    world.bench.call("a")
    world.begin()
    world.bench.receive(world.epoch, "a0 a1 b2")
    return world


@pytest.mark.parametrize("name", ["t/0@0", "a"])
def test_skip_ends_the_wait_and_skips_the_record_of_that_call(world: World, name: str) -> None:
    """By whatever name; a preview changes nothing."""
    would = world.act("skip", name, preview=True)
    assert would.text.startswith(
        "t/0@0 (key a) would be skipped; the key would be resumed, although the handler call of t/0@0 "
    )
    world.bench.work()
    assert world.bench.started == ["a0", "b2"]
    done = world.act("skip", name)
    assert (done.changed, done.records, done.name) == (True, 1, "t/0@0")
    world.bench.work()
    assert world.bench.started == ["a0", "b2", "a1"]
    assert world.skipped() == [0]
    assert world.epoch.watermark() == 3
    assert world.epoch.tally.skipped_records == 1


def test_skip_skips_nothing_where_the_record_of_that_call_did_not_come_again(world: World) -> None:
    """Its key's next records have done nothing wrong. The call is named by its own record, or by the key."""
    world.begin()
    world.bench.receive(world.epoch, "a1 a3")
    done = world.act("skip", "t/0@0")
    assert done.text.startswith("t/0@1 (key a): the key resumed, although the handler call of t/0@0 from ")
    world.bench.work()
    assert world.bench.started[1:] == ["a1", "a3"]
    assert world.skipped() == []


def test_a_key_that_waits_for_such_a_call_is_listed_and_nothing_else_can_be_done_to_it(world: World) -> None:
    """Each with the reason."""
    [key] = on_hold(world.context, (world.route,), 10)
    assert (key.status, key.records) == ("waiting: earlier call", 2)
    assert set(key.refused) == {"retry", "dead_letter"}
    assert key.state == "waits for the call of t[0]@0 of epoch 1, which has ended"
    for do in ("retry", "dead_letter"):
        with pytest.raises(ActionRefusedError):
            world.act(do, "a")


def test_a_paused_key_stays_paused_when_its_wait_ends(world: World) -> None:
    """Both are commands of their own."""
    world.act("pause", "a")
    world.act("skip", "a")
    world.bench.work()
    assert world.bench.started == ["a0", "b2"]
    world.act("resume", "a")
    world.bench.work()
    assert world.bench.started[2:] == ["a1"]


def test_records_of_a_stopped_handler_can_be_skipped_and_sent_away() -> None:
    """And stay where they are otherwise."""
    world = World()
    bench = world.bench
    bench.waiting.divert = lambda _attempt, *_reason: AwaitHead("written", lambda _ticket: None)
    bench.receive(world.epoch, "a0 a1 b2 b3")
    bench.router.piles.stop()
    world.act("skip", "a")
    world.act("dead_letter", "b")
    with pytest.raises(ActionRefusedError, match="is paused: resume its key first"):
        world.act("retry", "a")
    bench.work()
    assert (bench.started, world.skipped()) == ([], [0])
    assert bench.held("b", world.epoch).ticket is not None
    bench.router.piles.resume()
    bench.work()
    assert bench.started == ["a1"]
