"""The one way to put sentences together out of texts that others wrote. Pure.

An error's own text may end with a full stop, a question or nothing; the sentence that takes it in ends once.
"""

from __future__ import annotations

from datetime import UTC, datetime

_MARKS = (".", "?", "!", "…")


def ended(text: str) -> str:
    """Return a text as the end of a sentence: with its own mark, else with a full stop, once."""
    text = text.strip()
    while text.endswith(("..", "?.", "!.", ";", ",", ":")) and not text.endswith("..."):
        text = text[:-1].rstrip()
    return text if text.endswith(_MARKS) else f"{text}."


def seconds(number: float) -> str:
    """Return a time with three digits that count, and its unit: `5.1 s`, `0.0125 s`, `1230 s`."""
    if 0 < number < 0.001:
        return "less than 1 ms"
    return f"{number:.0f} s" if abs(number) >= 100 else f"{number:.3g} s"


def clock_time(at_s: float) -> str:
    """Return a moment since 1970 as the time of its day: `22:13:00 UTC`."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S UTC")


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 letter`, `2 letters`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
