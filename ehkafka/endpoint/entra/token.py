"""A token as librdkafka takes it: checked once, when the credential hands it over.

Pure: time comes in as an argument. librdkafka asks never again after an answer that it cannot read, so
nothing passes here that it would not take. No error repeats what the credential gave.
"""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass

from ehkafka.settings.secret import Secret

# RFC 6750 allows less; a NUL would end the text in C, a line break would forge the message to the broker.
_VISIBLE = re.compile(r"[\x21-\x7e]+")
# Of Entra ID a day at most. A time in milliseconds is 1000 times too far away.
_LIFE_S_MAX = 366 * 86_400.0


class UnusableTokenError(Exception):
    """What the credential returned is no token; the message says why and repeats none of it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, when it expires (epoch), and how long it had to live when it came."""

    text: Secret
    expires_at_s: float
    life_s: float


def read_token(answer: object, now_s: float) -> Token:
    """Check what a credential returned at `now_s` (epoch). Raises `UnusableTokenError`."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise UnusableTokenError(
            "the credential is an async one, and returned a coroutine instead of a token"
        )
    text = getattr(answer, "token", None)
    if not isinstance(text, str):
        raise UnusableTokenError(f"the credential returned {type(answer).__name__} without a text in .token")
    if _VISIBLE.fullmatch(text) is None:
        raise UnusableTokenError(
            "the credential returned an empty token"
            if not text
            else "the credential returned a token with blanks, control or non-ASCII characters"
        )
    expires_at_s = _epoch(getattr(answer, "expires_on", None))
    life_s = expires_at_s - now_s
    if life_s <= 0:
        raise UnusableTokenError(
            f"the credential returned a token that expired {now_s - expires_at_s:.0f} s ago"
            " (is the clock right?)"
        )
    if life_s > _LIFE_S_MAX:
        raise UnusableTokenError(
            "the credential returned a token that expires in more than a year; .expires_on is in seconds"
        )
    return Token(Secret(text), expires_at_s, life_s)


def _epoch(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnusableTokenError(
            f"the credential returned {type(value).__name__} in .expires_on, and not epoch seconds"
        )
    return float(value)
