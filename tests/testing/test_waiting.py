"""The waiter and the recorder of this project's tests: what a failure says, and what is kept."""

from __future__ import annotations

from itertools import count

import pytest

from tests.kit.waiting import must_stay, wait_until


def test_a_wait_in_vain_says_what_for_and_what_was_there() -> None:
    """The condition's own words and the value of each of its parts, also next to another lambda."""
    seen, limit = [1, 2], {"records": 3}
    with pytest.raises(AssertionError) as failed:
        wait_until(lambda: len(seen) >= limit["records"] or not seen, timeout_s=0.0)
    assert str(failed.value) == (
        "len(seen) >= limit['records'] or not seen: not within 0 s; "
        "seen is [1, 2], limit['records'] is 3, seen is [1, 2]"
    )


def test_a_condition_that_is_no_lambda_is_named() -> None:
    """With what it returns; a part that raises shows its error."""

    def is_done() -> int:
        return 0

    nothing: dict[str, int] = {}
    with pytest.raises(AssertionError, match="is_done: not within 0 s; it returns 0"):
        wait_until(is_done, timeout_s=0.0)
    with pytest.raises(AssertionError, match=r"nothing\['a'\] is KeyError\('a'\)"):
        wait_until(lambda: nothing and nothing["a"] == 1, timeout_s=0.0)


def test_what_is_to_stay_fails_as_soon_as_it_does_not() -> None:
    """With the same words; what stays is looked at all the time."""
    numbers = count()
    with pytest.raises(AssertionError, match=r"^next\(numbers\) < 3: did not stay so; next\(numbers\) is 4$"):
        must_stay(lambda: next(numbers) < 3, for_s=30.0)
    must_stay(lambda: next(numbers) > 0, for_s=0.01)
    assert next(numbers) > 3
