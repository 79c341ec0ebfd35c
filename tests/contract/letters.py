"""Handlers that fail for some keys, and what a test reads in a letter."""

from __future__ import annotations

from typing import Any

import ehkafka

TO_DEAD = ehkafka.DeadLetter("dead")
TWICE = ehkafka.Retry(attempts=2, first_s=0.01, jitter=0)


def rejecting(*keys: bytes) -> Any:
    """Return a handler that fails for these keys and keeps what it finished."""

    def handler(record: Any) -> None:
        if record.key() in keys:
            handler.before()
            raise ValueError(f"no luck with {record.offset()}")
        handler.done.append(record.offset())

    handler.done = []
    handler.before = lambda: None
    return handler


def headers_of(letter: Any) -> dict[str, str]:
    """Return a letter's headers as text."""
    return {name: (value or b"").decode() for name, value in letter.headers()}


def offsets_of(letters: list[Any]) -> list[int]:
    """Return the origin offsets of letters."""
    return [int(headers_of(letter)["ehkafka-origin-offset"]) for letter in letters]


def dead_lettered(app: Any) -> int:
    """Return how many records have that outcome."""
    return app.snapshot().dead_lettered_records
