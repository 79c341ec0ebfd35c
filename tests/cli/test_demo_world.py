"""The simulated homes and the handler that watches them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson

import ehkafka
from ehkafka.cli.demo.homes import Homes, HomeState
from ehkafka.cli.demo.world import World

if TYPE_CHECKING:
    import pytest

DOOR_OPENS: dict[str, Any] = {"kind": "door", "value": 1}
DOOR_SHUTS: dict[str, Any] = {"kind": "door", "value": 0}
QUIET: dict[str, Any] = {"kind": "motion", "value": 0}


def test_the_order_of_readings_decides_the_alarms() -> None:
    """Swapped readings come to other alarms, so comparing them with the simulator's can find a swap."""

    def alarms(*readings: dict[str, Any]) -> int:
        state = HomeState()
        return sum(state.apply(reading) for reading in readings)

    assert alarms(DOOR_OPENS, DOOR_SHUTS, QUIET, DOOR_OPENS) == 2
    assert alarms(DOOR_OPENS, QUIET, DOOR_SHUTS, DOOR_OPENS) == 1
    assert alarms(DOOR_OPENS, DOOR_OPENS) == 1


def test_a_handler_that_sees_all_in_order_raises_the_expected_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator's count is that of the handler's own state machine."""
    monkeypatch.setattr("ehkafka.cli.demo.homes.SLOW_S", 0.0)
    world, homes = World(random.Random(3), 16), Homes()
    for _ in range(20_000):
        homes.handle(_Parsed(world.next_reading(1_000).value))  # type: ignore[arg-type]
    assert homes.alarms == world.alarms > 100
    assert {kind for kind in ("door", "motion") if any(s.door_open for s in homes.states.values())}


def test_readings_are_never_of_the_same_time() -> None:
    """A clock that stands still or goes back does not hide the order in which they were made."""
    world = World(random.Random(3), 16)
    times = [orjson.loads(world.next_reading(now).value)["time"] for now in (5, 5, 3, 9, 9)]
    assert times == [5, 6, 7, 9, 10]


def test_a_home_keeps_to_the_partition_that_its_key_would_get() -> None:
    """The simulator chooses the partition as librdkafka's own partitioner would."""
    from confluent_kafka import Producer  # noqa: PLC0415 - the reference, for this test alone

    world = World(random.Random(3), 16)
    readings = [world.next_reading(1) for _ in range(200)]
    got: dict[bytes, int] = {}
    with ehkafka.Endpoint.embedded({"t": 16}) as endpoint:
        producer = Producer(endpoint.client_properties())
        for reading in readings:
            producer.produce(
                "t",
                key=reading.key,
                on_delivery=lambda _error, message: got.update({message.key(): message.partition()}),
            )
        assert producer.flush(10) == 0
    assert got == {reading.key: reading.partition for reading in readings}


class _Parsed:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def json(self) -> Any:
        return orjson.loads(self._value)
