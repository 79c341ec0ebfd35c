"""When a failed record is tried again: the schedule as a value, and what a function may answer."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import ConfigurationError
from ehkafka.recovery.retry import DELAY_S_MAX, NO_RETRY, Retry, delay_of_function

ERROR = ValueError("no luck")


def delays(retry: Retry, count: int, chance: float = 0.5) -> list[float | None]:
    """Return the delays after the first so many failures."""
    return [retry.delay_s(attempt, ERROR, chance) for attempt in range(1, count + 1)]


def test_delays_grow_up_to_their_maximum_and_end_with_the_attempts() -> None:
    """`attempts` counts all calls: after the last there is no delay."""
    retry = Retry(attempts=6, first_s=0.5, factor=2.0, max_s=3.0)
    assert delays(retry, 6) == [0.5, 1.0, 2.0, 3.0, 3.0, None]
    assert NO_RETRY.delay_s(1, ERROR, 0.5) is None


@given(
    chance=st.floats(0, 1, exclude_max=True),
    jitter=st.floats(0, 1),
    attempt=st.integers(1, 10**6),
    factor=st.one_of(st.floats(1, 1e6), st.integers(1, 10**6)),
)
def test_jitter_stays_within_its_share(chance: float, jitter: float, attempt: int, factor: float) -> None:
    """However many attempts there were, also where the power is beyond any number."""
    retry = Retry(attempts=None, first_s=0.2, factor=factor, max_s=30.0, jitter=jitter)
    plain = Retry(attempts=None, first_s=0.2, factor=factor, max_s=30.0, jitter=0.0)
    delay_s, middle_s = retry.delay_s(attempt, ERROR, chance), plain.delay_s(attempt, ERROR, chance)
    assert delay_s is not None
    assert middle_s is not None
    assert 0.2 <= middle_s <= 30.0
    assert middle_s * (1 - jitter) - 1e-9 <= delay_s <= middle_s * (1 + jitter) + 1e-9


def test_jitter_uses_its_whole_share() -> None:
    """Half of the records come earlier, half later."""
    retry = Retry(first_s=10.0, jitter=0.1)
    assert retry.delay_s(1, ERROR, 0.0) == pytest.approx(9.0)
    assert retry.delay_s(1, ERROR, 1.0 - 1e-12) == pytest.approx(11.0)


def test_without_a_first_delay_there_is_never_one() -> None:
    """Also after so many attempts that the factor's power is beyond any number."""
    assert Retry(attempts=None, first_s=0.0).delay_s(5_000, ERROR, 0.9) == 0.0


def test_only_chosen_errors_are_tried_again() -> None:
    """`on` says which, `give_up_on` takes some of them out, subclasses included."""
    retry = Retry(on=(OSError, ValueError), give_up_on=FileNotFoundError, jitter=0)
    assert retry.delay_s(1, OSError(), 0.5) == 0.2
    assert retry.delay_s(1, ConnectionError(), 0.5) == 0.2
    assert retry.delay_s(1, FileNotFoundError(), 0.5) is None
    assert retry.delay_s(1, KeyError(), 0.5) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attempts", 0),
        ("attempts", 2.5),
        ("attempts", True),
        ("first_s", -1),
        ("first_s", math.nan),
        ("first_s", 60.0),
        ("max_s", math.inf),
        ("max_s", DELAY_S_MAX + 1),
        ("factor", 0.5),
        ("jitter", 1.5),
        ("jitter", "some"),
        ("on", KeyboardInterrupt),
        ("on", [ValueError]),
        ("give_up_on", "ValueError"),
    ],
)
def test_what_cannot_work_is_refused_with_its_value(name: str, value: Any) -> None:
    """The message names the field, the value and what to give."""
    with pytest.raises(ConfigurationError, match=r"Retry\((max_s|" + name + ")="):
        Retry(**{name: value})


@pytest.mark.parametrize("answer", ["1", -0.1, True, math.nan, math.inf, DELAY_S_MAX * 2, [1]])
def test_a_function_may_answer_seconds_or_none_only(answer: Any) -> None:
    """Whatever else it answers is reported, with the value."""
    with pytest.raises(ConfigurationError, match="the retry function returned"):
        delay_of_function(answer)
    assert delay_of_function(None) is None
    assert delay_of_function(3) == 3.0
