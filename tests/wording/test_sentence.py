"""How sentences are put together: others' texts end once, times have few digits, secrets are struck out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ehkafka.wording import counted, ended, seconds
from ehkafka.wording.secrets import struck

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("it is no number", "it is no number."),
        ("it is no number.", "it is no number."),
        ("it is no number..", "it is no number."),
        ("did you mean drain_s?", "did you mean drain_s?"),
        ("did you mean drain_s?.", "did you mean drain_s?"),
        ("and so on…", "and so on…"),
        ("wait...", "wait..."),
        (" to do: ", "to do."),
        ("", "."),
    ],
)
def test_a_sentence_ends_once(text: str, end: str) -> None:
    """Whatever the text that it takes in ends with."""
    assert ended(text) == end


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5.09765, "5.1 s"),
        (0.0125, "0.0125 s"),
        (0.00004, "less than 1 ms"),
        (0, "0 s"),
        (10.0, "10 s"),
        (65.25, "65.2 s"),
        (1234.5, "1234 s"),
        (604_800, "604800 s"),
    ],
)
def test_a_time_has_three_digits_that_count(number: float, text: str) -> None:
    """A person reads it; a program has the event's own field."""
    assert seconds(number) == text


def test_one_is_not_many() -> None:
    """A number agrees with its noun."""
    assert [counted(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert counted(2, "batch", "batches") == "2 batches"


@pytest.mark.parametrize(
    "text",
    ["It failed.. Fix: x", "did you mean drain_s?.", "after 5.09765 s", "in 0.0 s", "1 records left", "so. "],
)
def test_the_watch_over_sentences_sees_what_is_wrong(flaws: Callable[[str], list[str]], text: str) -> None:
    """Each flaw that it is there for; the fixture `plain_words` looks at what tests bring about."""
    assert len(flaws(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["a... b", "../x", "5.1 s", "0.0125 s", "120 s", "1.5 s", "11 records", "v1.2345 s3", "0 s"],
)
def test_the_watch_over_sentences_takes_what_is_right(flaws: Callable[[str], list[str]], text: str) -> None:
    """And nothing else."""
    assert flaws(text) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SharedAccessKey=hush&hush;x", "SharedAccessKey=***;x"),
        ("accountkey = hush x", "accountkey = *** x"),
        ("password=hush&hush& x", "password=*** x"),
        ("https://h/c?sv=1&sig=hush%2B&se=2", "https://h/c?sv=1&sig=***&se=2"),
        ("http://me:hush@h/", "http://me:***@h/"),
        ("Bearer eyJhbGciOi.eyJzdWIi.c2ln refused", "Bearer *** refused"),
        ("SharedAccessKeyName=app; design=blue", "SharedAccessKeyName=app; design=blue"),
    ],
)
def test_what_looks_like_a_secret_is_struck_out(text: str, shown: str) -> None:
    """As a whole, with an `&` in it, and nothing else."""
    assert struck(text) == shown
