"""The simulated homes and the handler that watches them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.cli.demo.homes import Homes, make_readings

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
    homes = Homes()
    for key, value in islice(make_readings(), 20_000):
        homes.handle(_Parsed(value))  # type: ignore[arg-type]
        assert key.decode() in homes.readings
    assert homes.swapped == []
    assert sum(homes.readings.values()) == 20_000
    assert max(homes.readings.values()) > 2


class _Parsed:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def json(self) -> Any:
        return orjson.loads(self._value)
