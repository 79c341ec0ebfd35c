"""What one supervisor is to do, as a frozen value, and what is said against it at the start. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError
from ehkafka.members.count import usable_members
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.members.boot import Boot
    from ehkafka.run.health_file import HealthFile
    from ehkafka.settings import Settings

# From the start of a process until it has joined its group; measured 1 to 3 s on a small machine.
START_S: Final = 5.0
_HUNG_S_MIN: Final = 1.0
_HUNG_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One supervisor's members."""

    count: int
    settings: Settings
    endpoint_name: str
    boot: Boot
    # Members end by themselves, once they have caught up.
    has_end: bool = False
    # None: who is not live is left alone.
    hung_s: float | None = None
    health_file: HealthFile | None = None
    # With fewer that are ready the supervisor is not.
    members_min: int = 1


def checked_hung_s(given: object) -> float | None:
    """Return the time as it was given. Raises `ConfigurationError`."""
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not _HUNG_S_MIN <= given <= _HUNG_S_MAX:  # type: ignore[operator]
        raise ConfigurationError(
            f"hung_s={given!r:.80}: give seconds from {_HUNG_S_MIN:g} to {_HUNG_S_MAX:g}, or None to leave "
            "members alone that are not live."
        )
    return float(given)  # type: ignore[arg-type]


def checked_members_min(given: object, count: object) -> int:
    """Return how many members must be ready. Raises `ConfigurationError`."""
    most = count if isinstance(count, int) else 1_000
    if given is None:
        return 1
    if type(given) is not int or not 0 <= given <= most:
        raise ConfigurationError(f"members_min={given!r:.80}: give a number from 0 to the members, {count}.")
    return given


def advice(count: int, partitions: Mapping[str, int], settings: Settings, session_s: float) -> Iterator[str]:
    """Yield what works otherwise than somebody may expect, with the numbers."""
    usable = usable_members(partitions, settings.assignor)
    if count > usable:
        topics = ", ".join(
            f"{topic} has {counted(number, 'partition')}" for topic, number in partitions.items()
        )
        yield (
            f"{count - usable} of {count} members get no partition ({topics}): they stand by, and take over "
            f"when another one ends. members={usable} uses them all."
        )
    restart_s = settings.stop_s + START_S
    if settings.instance_id is not None and restart_s > session_s:
        yield (
            f"With an instance_id a restarted member keeps its partitions only if it is back within the "
            f"session time-out of {session_s:g} s, but its stop may take stop_s={settings.stop_s:g} s and "
            f"its start about {START_S:g} s. Set session.timeout.ms to {1000 * restart_s:.0f} or more, or "
            "lower stop_s, so that a rolling restart (SIGHUP) moves no partition."
        )
