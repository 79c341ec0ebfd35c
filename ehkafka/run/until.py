"""Until when a run goes on, where it is not until somebody stops it: `App.run(until=…)`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition

UntilWord = Literal["caught_up"]

_SETTLE_S_MAX: Final = 366 * 86_400.0

# What the supervisor of this process has asked, for all of its members; nothing where there is none. Set
# once, before the app runs.
known_ends: Mapping[TopicPartition, LogBounds] = {}


@dataclass(frozen=True, slots=True)
class Until:
    """A run ends when it has caught up; what waits for longer than `settle_s` fails it.

    `ends` are the logs' ends that are known before: all members of a supervisor have the same.
    """

    settle_s: float
    ends: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)


def checked_until(until: object, settle_s: object) -> Until | None:
    """Return what was asked for, None for a run without an end. Raises `ConfigurationError`."""
    is_number = isinstance(settle_s, int | float) and not isinstance(settle_s, bool)
    if not is_number or not 0 < settle_s <= _SETTLE_S_MAX:  # type: ignore[operator]
        raise ConfigurationError(
            f"settle_s={settle_s!r:.80}: give seconds above 0 and up to {_SETTLE_S_MAX:.0f}."
        )
    if until is None:
        return None
    if until != "caught_up":
        raise ConfigurationError(
            f"until={until!r:.80} is unknown; use 'caught_up', or None to run until a stop."
        )
    return Until(float(settle_s), known_ends)  # type: ignore[arg-type]
