"""The simulated homes and the handler that watches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

import ehkafka
from ehkafka.cli.demo.homes import Homes, World

if TYPE_CHECKING:
    import pytest


def test_a_swap_is_found_by_the_homes_own_count() -> None:
    """A reading before an earlier one is counted with its home; one that comes again is not."""
    homes = Homes()
    for home, number in (("a", 1), ("b", 1), ("a", 2), ("a", 2), ("b", 3), ("b", 2), ("a", 3), ("b", 4)):
        homes.handle(_Parsed(orjson.dumps({"home": home, "number": number})))  # type: ignore[arg-type]
    assert homes.swapped == ["b"]
    assert homes.readings == {"a": 3, "b": 4}


def test_a_handler_that_sees_all_in_order_finds_no_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The world counts as the handler does."""
    monkeypatch.setattr("ehkafka.cli.demo.homes.SLOW_S", 0.0)
    world, homes = World(16), Homes()
    for _ in range(20_000):
        homes.handle(_Parsed(world.next_reading()[2]))  # type: ignore[arg-type]
    assert homes.swapped == []
    assert sum(homes.readings.values()) == 20_000
    assert max(homes.readings.values()) > 2


def test_a_home_keeps_to_the_partition_that_its_key_would_get() -> None:
    """The simulator chooses the partition as librdkafka's own partitioner would."""
    from confluent_kafka import Producer  # noqa: PLC0415 - the reference, for this test alone

    world = World(16)
    readings = [world.next_reading() for _ in range(200)]
    got: dict[bytes, int] = {}
    with ehkafka.Endpoint.embedded({"t": 16}) as endpoint:
        producer = Producer(endpoint.client_properties())
        for _partition, key, _value in readings:
            producer.produce(
                "t",
                key=key,
                on_delivery=lambda _error, message: got.update({message.key(): message.partition()}),
            )
        assert producer.flush(10) == 0
    assert got == {key: partition for partition, key, _value in readings}


class _Parsed:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def json(self) -> Any:
        return orjson.loads(self._value)
