"""A world of the sender where all is well, and where only a test acts."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs import sender
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.output import Output
from ehkafka.outputs.unacknowledged import PARTS
from tests.outputs.pretended_broker import PARTITIONS, Answer
from tests.outputs.sender_sources import Waiter
from tests.outputs.sender_world import FOREVER, World, in_a_world

if TYPE_CHECKING:
    from collections.abc import Iterator


ALL = {("t", partition) for partition in range(PARTITIONS)}


@contextmanager
def calm() -> Iterator[World]:
    """Give a world where all is well, and where only the test acts."""
    with (
        in_a_world(3) as world,
        patch.object(OneProducer, "batches_max", 10),
        patch.object(sender, "SLICE", 500),
    ):
        world.broker.throttles = world.broker.forgets = world.broker.loses = 0.0
        world.fails_to_open = world.refuse_share = 0.0
        world.room, world.may_act = FOREVER, False
        world.sender._at_once, world.sender._batch_outputs = True, 1000
        world.sender._round_robin._are_taken = True
        world.outputs._outputs_max = 1000
        world.sender._producer.start(0)
        world.judge = lambda *_: None  # type: ignore[method-assign]
        yield world


def put(world: World, *values: bytes, partition: int = -1, headers: Any = None, waits: bool = False) -> None:
    """Put outputs whose keys are their first letters; a dash is none."""
    entry: Any = world._entry(world.epochs[0])
    if waits:
        entry = Waiter(entry)
        entry.world, entry.takes_refusals, entry.count_acknowledged, entry.end = world, False, 0, None
        entry.values = list(values)
    flat: list[Any] = []
    for value in values:
        flat += (world, entry, "t", value, value[:1].strip(b"-") or None, headers, partition)
    world.outputs.put(entry, flat, 10)


def turn(world: World, times: int = 1) -> None:
    """Let the sender go round."""
    for _ in range(times):
        world.sender._turn()


def parked(world: World) -> list[bytes]:
    """Return what waits for the first answer of its key."""
    lines = world.outputs.lines.items()
    return [value for (_, place), flat in lines if type(place) is not int for value in flat[3::PARTS]]


def new(world: World) -> list[bytes]:
    """Return what the sender has still to look at."""
    return list(world.outputs.added)[3::PARTS]


def sizes(world: World) -> list[int]:
    """Return how many outputs each batch has that is with the client."""
    return list(map(len, world.outputs.batches))


def aside(world: World) -> list[bytes | None]:
    """Return what goes alone."""
    return [one.value for queue in world.outputs.aside.values() for one in queue]


def settle(world: World, *values: bytes) -> None:
    """Have some written and acknowledged."""
    put(world, *values)
    for _ in range(100):
        if not world.outputs.count():
            return
        turn(world)
    pytest.fail("not acknowledged")


def fail(world: World, code: int) -> None:
    """Have the client report that its first batch failed."""
    batch = next(iter(world.outputs.batches))
    world.sender._reports.take(batch, KafkaError(code), Answer(("t", 1), None))


def taken(world: World, value: bytes) -> Output:
    """Put an output, and return it as the sender takes it."""
    put(world, value)
    return Output(*world.outputs.take(1))
