"""Nothing secret and nothing that steers a terminal gets into a result."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.checks.cleaning import Cleaner
from ehkafka.wording.line import printable

KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
CONNECTION = f"Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=app;SharedAccessKey={KEY}"


@given(st.text())
def test_printable_text_has_no_control_character(text: str) -> None:
    """Whatever came in, what comes out is printable; printable text stays as it is."""
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nb\r", r"a\nb\r"),
        ("\x9b31m", r"\x9b31m"),
        ("abc\u202edef", r"abc\u202edef"),
        ("Grüße 日本 ✓", "Grüße 日本 ✓"),
    ],
)
def test_escapes_are_the_usual_ones(text: str, shown: str) -> None:
    """Escape sequences, line ends and turned writing show as Python writes them."""
    assert printable(text) == shown


@pytest.mark.parametrize(
    "words",
    [
        f"refused: {CONNECTION}",
        f"key {KEY} is wrong",
        f"sharedaccesskey = {KEY}; x",
        "eyJhbGciOi.eyJzdWIi.c2ln",
    ],
)
def test_secrets_are_struck_out(words: str) -> None:
    """The whole string, the key alone, a key by its name, and anything in the form of a token."""
    cleaner = Cleaner()
    cleaner.learn({"sasl.password": CONNECTION, "sasl.username": "$ConnectionString"})
    shown = cleaner.text(words)
    assert KEY not in shown
    assert "eyJ" not in shown
    assert "***" in shown
    assert cleaner.facts({words: [words, 1, None]}) == {shown: [shown, 1, None]}


@pytest.mark.parametrize(
    "rest", ["me:hush@login.example/t", "login.example/t?code=hush", "login.example/t?sig=hush"]
)
def test_a_token_endpoint_with_a_key_in_it_is_struck_out(rest: str) -> None:
    """One without is where to look when no token comes, and is left."""
    cleaner = Cleaner()
    url, plain = f"https://{rest}", "https://login.example/plain"
    cleaner.learn({"sasl.oauthbearer.token.endpoint.url": url})
    cleaner.learn({"sasl.oauthbearer.token.endpoint.url": plain})
    assert cleaner.text(f"{url} and {plain} failed") == f"*** and {plain} failed"


def test_a_text_is_one_line_of_bounded_length() -> None:
    """A broker's long answer is cut."""
    assert len(Cleaner().text("x\n" * 5000)) < 1100
    assert Cleaner().text("a\n  b") == "a b"
