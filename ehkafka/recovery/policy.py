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
    """Stop the app with an error. The commit does not pass the record. This is the default."""


@made_plainly
@dataclass(frozen=True, slots=True)
class Hold:
    """Put the record's key on hold: the key waits, other keys continue, and health turns red.

    The commit does not pass the record, so the record is handled again after a restart.
    """


@made_plainly
@dataclass(frozen=True, slots=True)
class Skip:
    """Skip the record: the app counts and logs it, and the commit can move past the record."""


@made_plainly
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Send a copy of the record to a dead-letter topic of the same endpoint, or to a function, and continue.

    The record is done when the broker has acknowledged the dead letter, or the function has returned. Until
    then, the commit does not pass the record. A dead letter is written at least once: if the record is not
    committed before a crash or a revoke, its dead letter is written again. The topic must exist at the start.
    The topic can have a handler, but dead letters must not go in a circle.

    - `to` (required): the topic's name, or a function of one `Letter` that returns when it has stored it.

    Order

    - `after` (default `"continue"`): what happens to the key's next records: `"continue"`: they run.
      `"hold_key"`: they wait for a command or a restart. `"divert_key"`: they become dead letters without a
      call. When the partition is revoked, the app forgets such keys.

    Limits: many dead letters usually mean a broken handler, not broken records

    - `run_max` (dead letters, default `None`): the limit of dead letters in a row, without a success in
      between.
    - `ratio_max` (a share from 0 to 1, default `None`): the limit of dead letters, as a share of the last
      1000 results.
    - `on_limit` (default `"stop"`): what happens at the limit. `"stop"`: the app stops. `"hold"`: the key of
      each further failing record is on hold.

    Content

    - `stack` (default `True`): whether the header `ehkafka-error-stack` has the error's stack: up to 8 kB of
      source lines of your code, without values. If the dead letter would be too large, the stack is left
      out.
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
