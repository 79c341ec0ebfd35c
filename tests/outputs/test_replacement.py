"""When a producer is replaced by another one, and how long that one is waited for."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.outputs.replacement import Replacement

TIMED_OUT = -192
FAILS: tuple[str, Any] = ("failed", TIMED_OUT)
ACKNOWLEDGED: tuple[str] = ("acknowledged",)


@pytest.mark.parametrize(
    ("steps", "is_wanted"),
    [
        # No other try of the same producer can succeed.
        ([("failed", 47)], True),
        ([("failed", 49)], True),
        ([("failed", 59)], True),
        # Three failures in a row, of any kind.
        ([FAILS, FAILS, ACKNOWLEDGED, FAILS, FAILS], False),
        ([FAILS, FAILS, FAILS], True),
        # Each reported refusal raises the epoch as well, and is not counted twice.
        ([*[("reported",)] * 4, ("raised", 5)], False),
        ([*[("reported",)] * 4, ("raised", 5), ACKNOWLEDGED, ("raised", 7)], False),
        ([*[("reported",)] * 4, ("raised", 5), ACKNOWLEDGED, ("raised", 8)], True),
    ],
)
def test_a_producer_that_cannot_succeed_is_replaced(steps: list[Any], is_wanted: bool) -> None:
    """At once, or after three failures without an acknowledgement between them."""
    replacement = Replacement()
    for name, *arguments in steps:
        getattr(replacement, name)(*arguments)
    assert replacement.is_wanted is is_wanted


def test_a_fatal_error_wants_another_producer_at_once() -> None:
    """The client sends nothing any more."""
    replacement = Replacement()
    replacement.failed(TIMED_OUT, is_fatal=True)
    assert replacement.is_wanted


def test_unreported_epochs_are_refusals_too() -> None:
    """Error 59 never reaches us: librdkafka raises the epoch and sends again, for five minutes."""
    replacement = Replacement()
    replacement.raised(2)
    assert not replacement.is_wanted
    replacement.raised(3)
    assert replacement.is_wanted


def test_the_wait_doubles_up_to_a_minute_and_begins_anew_with_an_acknowledgement() -> None:
    """39 producers in 20 s were made where the id was refused."""
    replacement = Replacement()
    waits_s = []
    for _ in range(9):
        replacement.failed(49)
        waits_s.append(replacement.wait_s())
        assert not replacement.is_wanted
    assert waits_s == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    replacement.acknowledged()
    assert replacement.wait_s() == 1.0
