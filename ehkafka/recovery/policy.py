"""Failure policies: what a record's failure leads to once no retry is left.

Values the user gives as `on_failure=`. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable  # noqa: TC003 - read by dataclasses at run time
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.lanes.decision import AfterDeadLetter
from ehkafka.wording import ended
from ehkafka.wording.calling import is_topic_name, made_plainly, named

OnLimit = Literal["stop", "hold"]

# Outcomes over which the share of dead letters is judged.
LIMIT_WINDOW_RECORDS = 1_000


@made_plainly
@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the app with an error; nothing at or above the record is committed. The default."""


@made_plainly
@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the record in front of its key's others; its key waits, other keys are handled, health turns red.

    Nothing is committed past it in its partition, so all of that is redelivered after a restart.
    """


@made_plainly
@dataclass(frozen=True, slots=True)
class Skip:
    """Give the record the outcome *skipped*, counted and logged; the commit may pass it."""


@made_plainly
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Hand the record to a dead-letter topic of the same endpoint, or to a function, and continue.

    The record is done only when the broker has acknowledged the letter, or the function has returned; until
    then nothing is committed past it. A letter is written at least once: one whose record was not committed
    before a crash or a revoke is written again. The topic must exist at the start; it may have a handler of
    its own, but letters must not go in a circle.

    - `to` (required): the topic's name, or a function of one `Letter` that returns once the letter is stored.

    Order

    - `after` (default `"continue"`): what the key's next records do: `"continue"` (run), `"hold_key"` (wait
      for a command or a restart), or `"divert_key"` (follow to the dead letters without being tried). Held
      and diverted keys are forgotten when their partition is revoked.

    Limits: a flood of dead letters means a broken handler rather than broken records

    - `run_max` (letters, default `None`): the limit is reached by so many in a row, without a success between
      them.
    - `ratio_max` (a share from 0 to 1, default `None`): it is reached by so large a share of the last 1000
      outcomes.
    - `on_limit` (default `"stop"`): what happens then: `"stop"` the app, or `"hold"` each further failing
      record with its key.

    Content

    - `stack` (default `True`): put the error's stack into the header `ehkafka-error-stack`: source lines of
      the code that raised it, 8 kB at most, never a value. A letter that is too large with it goes without
      it.
    """

    to: str | Callable[[Any], object]
    after: AfterDeadLetter = "continue"
    run_max: int | None = None
    ratio_max: float | None = None
    on_limit: OnLimit = "stop"
    stack: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `ConfigurationError`."""
        if not callable(self.to) and not is_topic_name(self.to):
            raise _refused(
                "to", self.to, "give the name of the dead-letter topic, or a function of a dead letter"
            )
        if self.after not in get_args(AfterDeadLetter):
            raise _refused("after", self.after, f"use one of {', '.join(get_args(AfterDeadLetter))}")
        if self.run_max is not None and (type(self.run_max) is not int or self.run_max < 1):
            raise _refused("run_max", self.run_max, "give a number of dead letters, 1 or more")
        ratio = self.ratio_max
        is_share = isinstance(ratio, int | float) and not isinstance(ratio, bool) and math.isfinite(ratio)
        if ratio is not None and not (is_share and 0 < ratio <= 1):
            raise _refused("ratio_max", ratio, "give a number above 0 and up to 1: a share of the records")
        if self.on_limit not in get_args(OnLimit):
            raise _refused("on_limit", self.on_limit, f"use one of {', '.join(get_args(OnLimit))}")
        if type(self.stack) is not bool:
            raise _refused("stack", self.stack, "use True or False")

    @property
    def is_limited(self) -> bool:
        """Tell whether a flood of failures is looked for."""
        return self.run_max is not None or self.ratio_max is not None

    @property
    def where(self) -> str:
        """The topic, or the function's name, for messages."""
        return self.to if isinstance(self.to, str) else named(self.to)


FailurePolicy = Stop | Hold | Skip | DeadLetter


def letter_topics(policies: Iterable[FailurePolicy]) -> set[str]:
    """Return the topics to which these policies send dead letters."""
    return {one.to for one in policies if isinstance(one, DeadLetter) and isinstance(one.to, str)}


def _refused(name: str, value: object, fix: str) -> ConfigurationError:
    return ConfigurationError(f"DeadLetter({name}={value!r}): {ended(fix)}")
