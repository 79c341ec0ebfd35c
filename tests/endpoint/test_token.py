from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.endpoint.entra.token import (
    DELAY_S_MAX,
    DELAY_WITHOUT_TOKEN_S_MAX,
    UnusableTokenError,
    ask_after_s,
    is_due,
    read_token,
    retry_delay_s,
)

NOW_S = 1_800_000_000.0


def answer(token: Any = "abc", expires_on: Any = NOW_S + 60) -> SimpleNamespace:
    """Return what a credential may return."""
    return SimpleNamespace(token=token, expires_on=expires_on)


def test_a_token_is_read_with_its_own_expiry() -> None:
    """The expiry is the token's, as a number of any kind; the rest of life follows from it."""
    for expires_on in (int(NOW_S) + 60, NOW_S + 60.0):
        token = read_token(answer(expires_on=expires_on), NOW_S)
        assert (token.text.reveal(), token.expires_at_s, token.life_s) == ("abc", NOW_S + 60, 60.0)
    assert "abc" not in repr(token)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "NoneType"),
        ("abc", "str without a text in .token"),
        (answer(token=None), "without a text"),
        (answer(token=b"abc"), "without a text"),
        (answer(token=""), "empty token"),
        (answer(token="a\0b"), "control"),
        (answer(token="a b"), "spaces"),
        (answer(token="abc\n"), "control"),
        (answer(token="ä"), "non-ASCII"),
        (answer(expires_on=None), "NoneType in .expires_on"),
        (answer(expires_on="1800000060"), "str in .expires_on"),
        (answer(expires_on=True), "bool in .expires_on"),
        (answer(expires_on=float("nan")), "float in .expires_on"),
        (answer(expires_on=float("inf")), "float in .expires_on"),
        (answer(expires_on=NOW_S), "expired 0 s ago"),
        (answer(expires_on=NOW_S - 61), "expired 61 s ago"),
        (answer(expires_on=(NOW_S + 60) * 1000), "in seconds"),
    ],
)
def test_nonsense_is_no_token(given: Any, shown: str) -> None:
    """What librdkafka would choke on, or never ask again after, is refused and named."""
    with pytest.raises(UnusableTokenError) as refused:
        read_token(given, NOW_S)
    assert shown in str(refused.value)


def test_a_coroutine_is_no_token_and_is_not_left_open() -> None:
    """An async credential in disguise is refused, without a warning about its coroutine."""
    with pytest.raises(UnusableTokenError, match="async"):
        read_token(asyncio.sleep(0), NOW_S)


def test_a_token_is_due_before_librdkafka_asks_again() -> None:
    """Librdkafka asks at 80 % of the life; a caller between 70 % and that gets a new token too."""
    assert not is_due(remaining_s=31.0, life_s=100.0)
    assert is_due(remaining_s=30.0, life_s=100.0)
    assert is_due(remaining_s=0.0, life_s=100.0)


def test_librdkafka_asks_at_its_own_time_unless_the_life_is_short() -> None:
    """The token's own expiry is passed on, but seconds before the end there must be a new one."""
    assert ask_after_s(3600.0) == 2880.0
    assert ask_after_s(15.0) == 12.0
    assert [ask_after_s(life_s) for life_s in (10.0, 8.0, 4.0)] == [7.0, 5.0, 2.0]
    for life_s in (3600.0, 30.0, 10.0, 8.0, 4.0):
        assert is_due(life_s - ask_after_s(life_s), life_s)


def test_the_wait_after_failures_doubles_up_to_half_a_minute() -> None:
    """With a long valid token there is no hurry; jitter makes a wait at most a quarter shorter."""
    waits = [retry_delay_s(n, 3600.0, 0.999999) for n in range(1, 9)]
    assert [round(wait) for wait in waits] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert retry_delay_s(10_000, 3600.0, 0.0) == 0.75 * DELAY_S_MAX


def test_several_attempts_fit_into_what_is_left_of_the_token() -> None:
    """The wait shrinks with the rest of life, and without a valid token it stays short."""
    assert retry_delay_s(9, 40.0, 1.0) == 10.0
    assert retry_delay_s(9, 0.0, 1.0) == DELAY_WITHOUT_TOKEN_S_MAX
    assert all(retry_delay_s(n, 0.0, 0.0) >= 0.75 for n in range(1, 100))
