"""How many records are taken at once, by what Python's collector is set to."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from ehkafka.intake.backpressure import records_uncollected

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Leave the collector as it was."""
    before, is_on = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if is_on else gc.disable)()


@pytest.mark.parametrize(
    ("threshold", "records"),
    [(700, 630), (2_000, 1_000), (1_000, 900), (100, 1_000), (0, 1_000)],
)
def test_as_many_are_taken_as_the_collector_lets_pass(threshold: int, records: int) -> None:
    """No more than asked for, and where it looks all the time anyway no fewer."""
    gc.set_threshold(threshold)
    assert records_uncollected(1_000) == records


def test_a_collector_that_is_off_lets_all_pass() -> None:
    """Its threshold says nothing then."""
    gc.set_threshold(700)
    gc.disable()
    assert records_uncollected(1_000) == 1_000


def test_a_smaller_setting_counts() -> None:
    """What the user asked for is the most."""
    gc.set_threshold(700)
    assert records_uncollected(200) == 200
