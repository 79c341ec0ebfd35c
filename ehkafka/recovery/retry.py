"""When a failed record is retried: a schedule as a value, or the user's own function.

Pure: chance comes in as an argument. Called by `Failures` on the worker's thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ehkafka.errors import ConfigurationError
from ehkafka.records.signals import DELAY_S_MAX
from ehkafka.wording import ended
from ehkafka.wording.calling import made_plainly

# Answers `None` where the record is to be given up, else the seconds until the next attempt.
RetryFunction = Callable[[Any, int, Exception], float | None]

Errors = type[Exception] | tuple[type[Exception], ...]


@made_plainly
@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry a failed record, with growing delays.

    - `attempts` (calls, default `5`): how often the handler is called, including the first call. `None`: no
      limit.

    Delays

    - `first_s` (seconds, default `0.2`): the delay before attempt 2.
    - `factor` (default `2.0`): each further delay is so many times longer than the previous delay.
    - `max_s` (seconds, default `30.0`): the longest delay.
    - `jitter` (a share from 0 to 1, default `0.1`): each delay is up to this share longer or shorter.

    Errors

    - `on` (default `Exception`): only these errors are retried. For other errors, `on_failure` decides.
    - `give_up_on` (default `()`): these errors are not retried.
    """

    attempts: int | None = 5
    first_s: float = 0.2
    factor: float = 2.0
    max_s: float = 30.0
    jitter: float = 0.1
    on: Errors = Exception
    give_up_on: Errors = ()

    def __post_init__(self) -> None:
        """Refuse a schedule that cannot work. Raises `ConfigurationError`."""
        attempts = self.attempts
        if attempts is not None and (type(attempts) is not int or attempts < 1):
            raise _refused(
                "attempts", attempts, "give the number of attempts, 1 or more, or None for no limit"
            )
        _check_number("first_s", self.first_s, least=0.0, most=DELAY_S_MAX)
        _check_number("max_s", self.max_s, least=0.0, most=DELAY_S_MAX)
        _check_number("factor", self.factor, least=1.0, most=1e6)
        _check_number("jitter", self.jitter, least=0.0, most=1.0)
        if self.max_s < self.first_s:
            raise _refused("max_s", self.max_s, f"it is below first_s={self.first_s!r}: raise max_s")
        _check_errors("on", self.on)
        _check_errors("give_up_on", self.give_up_on)

    def delay_s(self, attempt: int, error: Exception, chance: float) -> float | None:
        """Return the seconds until the next attempt after `attempt` failed; `None`: give up.

        `chance` in [0, 1) decides the jitter.
        """
        if self.attempts is not None and attempt >= self.attempts:
            return None
        if isinstance(error, self.give_up_on) or not isinstance(error, self.on):
            return None
        if self.first_s == 0:
            return 0.0
        try:
            # A float: the power of a whole number would grow without end.
            delay_s = min(self.max_s, self.first_s * float(self.factor) ** (attempt - 1))
        except OverflowError:  # far beyond any maximum
            delay_s = self.max_s
        return delay_s * (1.0 + self.jitter * (2.0 * chance - 1.0))


def delay_of_function(answer: object) -> float | None:
    """Check what a user's retry function answered. Raises `ConfigurationError`."""
    if answer is None:
        return None
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= DELAY_S_MAX:
        raise ConfigurationError(
            f"the retry function returned {answer!r}: return the seconds until the next attempt, from 0 to "
            f"{DELAY_S_MAX:.0f}, or None for no further attempt."
        )
    return float(answer)


def _check_number(name: str, value: object, *, least: float, most: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type,operator]
        raise _refused(name, value, f"give a number from {least:g} to {most:g}")


def _check_errors(name: str, value: object) -> None:
    kinds = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise _refused(name, value, "give an exception class or a tuple of them")


def _refused(name: str, value: object, fix: str) -> ConfigurationError:
    return ConfigurationError(f"Retry({name}={value!r}): {ended(fix)}")


# Built last: the checks above must exist. One call, and then `on_failure`.
NO_RETRY = Retry(attempts=1)
