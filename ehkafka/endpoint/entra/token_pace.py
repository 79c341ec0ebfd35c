"""When a token is due for a refresh, and how long to wait after a refresh that failed.

Pure: time and randomness come in as arguments. Used by `TokenSource`.
"""

from __future__ import annotations

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
