"""When a producer of letters is given up, and how long the next one is waited for."""

from __future__ import annotations

import pytest

from ehkafka.outputs.replacement import Replacement

TIMED_OUT = -192


@pytest.mark.parametrize("code", [47, 49, 59])
def test_an_id_that_is_forgotten_wants_another_producer_at_once(code: int) -> None:
    """No other try of the same producer can succeed."""
    replacement = Replacement()
    replacement.failed(code)
    assert replacement.is_wanted


def test_a_fatal_error_wants_another_producer_at_once() -> None:
    """The client sends nothing any more."""
    replacement = Replacement()
    replacement.failed(TIMED_OUT, is_fatal=True)
    assert replacement.is_wanted


def test_so_does_the_third_failure_in_a_row() -> None:
    """Of whatever kind; an acknowledgement between them says that the producer is well."""
    replacement = Replacement()
    for _ in range(5):
        replacement.failed(TIMED_OUT)
        replacement.failed(TIMED_OUT)
        assert not replacement.is_wanted
        replacement.acknowledged()
    for _ in range(3):
        replacement.failed(TIMED_OUT)
    assert replacement.is_wanted


def test_epochs_that_nobody_reported_are_refusals_too() -> None:
    """Error 59 never reaches us: librdkafka raises the epoch and sends again, for five minutes."""
    replacement = Replacement()
    replacement.raised(2)
    assert not replacement.is_wanted
    replacement.raised(3)
    assert replacement.is_wanted


def test_epochs_raised_for_what_was_reported_are_not_counted_twice() -> None:
    """Each letter that is refused, too large or not, raises the epoch as well."""
    replacement = Replacement()
    for _ in range(4):
        replacement.reported()
    replacement.raised(5)
    assert not replacement.is_wanted
    replacement.acknowledged()
    replacement.raised(7)
    assert not replacement.is_wanted
    replacement.raised(8)
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
