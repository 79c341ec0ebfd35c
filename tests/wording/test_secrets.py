"""Nothing that looks like a key, a password or a token stays in a text."""

from __future__ import annotations

import pytest

from ehkafka.wording.secrets import struck


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
