"""What a handler may raise to say what is to become of its record."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ehkafka.records.signals import RejectRecord, RetryLater, SkipRecord


@pytest.mark.parametrize("after_s", [-1, float("nan"), float("inf"), True, "5", None])
def test_a_wait_that_is_none_is_refused_where_it_is_asked_for(after_s: Any) -> None:
    """The error names the value, and is an ordinary failure of the record."""
    with pytest.raises((TypeError, ValueError), match="RetryLater"):
        RetryLater(after_s)


def test_signals_say_what_they_want() -> None:
    """Reason and time are there, and in the text."""
    later = RetryLater(5, "not yet")
    assert (later.after_s, later.reason, str(later)) == (5.0, "not yet", "not yet")
    assert SkipRecord("a test").reason == "a test"
    assert str(RejectRecord("broken")) == "broken"


@pytest.mark.parametrize("signal", [SkipRecord("s"), RejectRecord("r")])
def test_signals_travel_between_processes(signal: Any) -> None:
    """A copy is the same signal with the same reason."""
    copy = pickle.loads(pickle.dumps(signal))
    assert (type(copy), copy.reason) == (type(signal), signal.reason)


def test_a_wish_for_time_travels_between_processes() -> None:
    """Time and reason come along."""
    copy = pickle.loads(pickle.dumps(RetryLater(5.0, "not yet")))
    assert (copy.after_s, copy.reason) == (5.0, "not yet")
