"""A dead letter: the record as it came and its origin in headers, read back by `letter_origin`."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.letters.letter import (
    ERROR_TEXT_CHARACTERS_MAX,
    Header,
    Letter,
    LetterFilter,
    LetterOrigin,
    headers_back,
    letter_of,
    letter_origin,
    shorter,
)
from tests.kit.simulated.message import SimulatedMessage

ORIGIN = TopicPartition("t", 3)


class Stamped(SimulatedMessage):
    """A message with a time-stamp."""

    def timestamp(self) -> tuple[int, int]:
        """Return a time."""
        return 1, 1_700_000_000_000


def a_letter(
    headers: Any = None, error: Any = None, reason: str = "KeyError: 'x'", stack: str = ""
) -> Letter:
    """Return the letter of a record at t[3]@42."""
    message = Stamped("t", 3, 42, b"\xff", b"v", headers=headers)
    return letter_of(
        message,
        ORIGIN,
        error=error,
        reason=reason,
        attempts=2,
        failed_at_s=1_700_000_001.5,
        handler="handle",
        group="g",
        stack=stack,
    )


def as_record(letter: Letter) -> Record:
    """Return the letter as it is read from its topic."""
    return Record(Stamped("dead", 0, 9, letter.key, letter.value, headers=letter.headers))  # type: ignore[arg-type]


def test_what_is_written_is_read() -> None:
    """Every field, in its type."""
    assert letter_origin(as_record(a_letter(error=KeyError("x")))) == LetterOrigin(
        ORIGIN, 42, 1_700_000_000_000, "KeyError", "KeyError: 'x'", 2, 1_700_000_001_500, "handle", "g", 0
    )


def test_own_headers_come_first_and_as_they_were_and_go_home_alone() -> None:
    """Twice the same name, no value and bytes that are no text stay; of ours only the counter goes along."""
    own = [("a", b"1"), ("a", None), ("x", b"\xff"), ("ehkafka-custom", b"mine")]
    letter = a_letter(own)
    assert letter.headers[:4] == own
    record = as_record(letter)
    origin = letter_origin(record)
    assert origin is not None
    back = headers_back(record, origin)
    assert back == [*own, ("ehkafka-redriven", b"1")]
    again = as_record(a_letter(back))
    second = letter_origin(again)
    assert second is not None
    assert second.redriven == 1
    assert headers_back(again, second) == [*own, ("ehkafka-redriven", b"2")]


def test_a_record_that_fails_again_has_each_header_once() -> None:
    """A letter of a letter tells of the last failure."""
    first = a_letter()
    second = a_letter(first.headers, reason="other")
    names = [name for name, _ in second.headers]
    assert len(names) == len(set(names))
    assert second.header("ehkafka-error-text") == b"other"


def test_header_names_that_would_end_the_process_are_replaced_and_counted() -> None:
    """Lone surrogates become U+FFFD; so do names that were no UTF-8 on the wire, and the count says so."""
    letter = a_letter([("lone\ud800", b"1"), ("\ufffd", b"2"), ("pair \U0001f600", b"3")])
    assert [name for name, _ in letter.headers[:3]] == ["lone\ufffd", "\ufffd", "pair \U0001f600"]
    assert letter.header("ehkafka-header-names-replaced") == b"2"
    assert a_letter([("fine", b"1")]).header("ehkafka-header-names-replaced") is None


def test_a_letter_shows_no_value() -> None:
    """Its repr may be in a log."""
    assert repr(a_letter([("secret", b"s")])) == "<Letter t[3]@42 key=b'\\xff'>"


def test_an_errors_text_is_cut_and_may_be_anything() -> None:
    """A letter must not outgrow its topic for it, nor fail for what is no UTF-8."""
    assert a_letter(reason="x" * 5_000).header("ehkafka-error-text") == b"x" * ERROR_TEXT_CHARACTERS_MAX
    assert a_letter(reason="file \udcff").header("ehkafka-error-text") == b"file \\udcff"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ehkafka-origin-partition", None),
        ("ehkafka-origin-partition", b"-1"),
        ("ehkafka-origin-partition", "²".encode()),
        ("ehkafka-origin-partition", b"9" * 5_000),
        ("ehkafka-origin-topic", b""),
        ("ehkafka-origin-topic", None),
    ],
)
def test_what_tells_no_origin_is_no_letter(name: str, value: bytes | None) -> None:
    """Any program may write such headers: they are passed over, and are no error."""
    headers = [(n, value if n == name else v) for n, v in a_letter().headers]
    assert letter_origin(Record(Stamped("dead", 0, 9, headers=headers))) is None  # type: ignore[arg-type]
    assert letter_origin(Record(Stamped("dead", 0, 9))) is None


def test_a_filter_that_asks_nothing_takes_all() -> None:
    """And each option leaves something out."""
    record = as_record(a_letter(error=KeyError("x")))
    origin = letter_origin(record)
    assert origin is not None
    assert LetterFilter().takes(record, origin)
    assert LetterFilter(error="keyERR", origin_topic="t").takes(record, origin)
    assert not LetterFilter(error="ValueError").takes(record, origin)
    assert not LetterFilter(origin_topic="u").takes(record, origin)
    assert not LetterFilter(key="k").takes(record, origin)


def test_a_letter_that_is_too_large_loses_its_stack_first() -> None:
    """Then its error's text: both are in the log."""
    letter = a_letter(error=KeyError("x"), stack="at a.py:1 in f\nTraceback\n")
    first = shorter(letter)
    assert first is not None
    assert (first.header(Header.ERROR_STACK), first.header(Header.ERROR_TEXT)) == (None, b"KeyError: 'x'")
    second = shorter(first)
    assert second is not None
    assert second.header(Header.ERROR_TEXT) == b"K"
