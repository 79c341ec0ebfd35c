"""A token as librdkafka takes it, checked once, when the credential hands it over; and when it is due again.

Pure: time and randomness come in as arguments. librdkafka asks never again after an answer that it cannot
read, so nothing passes here that it would not take. No error repeats what the credential gave.
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
FIRST_DELAY_S = 1.0
DELAY_S_MAX = 30.0
# No client can connect without a valid token, and the way back must take less than 10 s: azure-identity
# repeats an answer of 5xx by itself for 5 s, librdkafka looks once a second and then connects anew.
DELAY_WITHOUT_TOKEN_S_MAX = 1.5
LIBRDKAFKA_ASKS_AT = 0.8
# librdkafka asks at 80 % of the life that it was given. A token is due before, so that a client which was
# made later than the others, and asks at another time, gets a new one as well.
DUE_AT = 0.7
# Apache Kafka takes a re-authentication only if the last one is a second old, and a session ends with its
# token: one that begins with a token of the last second costs the connection. So ask no later than this
# before the end, which is earlier than 80 % for the short lives of tests.
EARLY_S = 3.0
_TIMER_S = 1.0  # of librdkafka, in which it looks whether to ask


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
        raise UnusableTokenError("the credential is async and returned a coroutine instead of a token")
    text = getattr(answer, "token", None)
    if not isinstance(text, str):
        raise UnusableTokenError(f"the credential returned {type(answer).__name__} without a text in .token")
    if _VISIBLE.fullmatch(text) is None:
        raise UnusableTokenError(
            "the credential returned an empty token"
            if not text
            else "the credential returned a token with spaces, control characters or non-ASCII characters"
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
            "the credential returned a token that expires in more than a year: .expires_on must be in seconds"
        )
    return Token(Secret(text), expires_at_s, life_s)


def _epoch(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnusableTokenError(
            f"the credential returned {type(value).__name__} in .expires_on, not seconds since 1970"
        )
    return float(value)


def ask_after_s(remaining_s: float) -> float:
    """Return when librdkafka shall ask next, for a token that has so much left."""
    return max(remaining_s / 2, min(LIBRDKAFKA_ASKS_AT * remaining_s, remaining_s - EARLY_S))


def is_due(remaining_s: float, life_s: float) -> bool:
    """Say whether a token that came with `life_s` and has `remaining_s` left should be replaced."""
    return remaining_s <= max((1.0 - DUE_AT) * life_s, min(life_s / 2, EARLY_S + _TIMER_S))


def retry_delay_s(failures: int, remaining_s: float, chance: float) -> float:
    """Return the wait after so many failures in a row; `chance` in [0, 1) spreads clients apart.

    It doubles from 1 s to 30 s, but several tries must fit into what is left of the token in use.
    """
    doubled_s: float = min(DELAY_S_MAX, FIRST_DELAY_S * 2.0 ** min(failures - 1, 10))
    most_s = remaining_s / 4 if remaining_s > 0 else 0.0
    delay_s = min(doubled_s, max(DELAY_WITHOUT_TOKEN_S_MAX, most_s))
    return delay_s * (0.75 + 0.25 * chance)
