"""How many members there are to be: as asked for, as the machine has cores, as the topics can use. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

Count = int | Literal["auto"]
AUTO: Final = "auto"
# A member is a process of some 45 MB, with a few connections to each broker; more than this is a typing
# error.
MEMBERS_MAX: Final = 256


def checked_count(given: object, called: str = "members") -> Count:
    """Return a number of members, or "auto", as it was given. Raises `ConfigurationError`."""
    if given == AUTO and isinstance(given, str):
        return AUTO
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MEMBERS_MAX:
        raise ConfigurationError(
            f"{called}={given!r:.80}: give a number of processes from 1 to {MEMBERS_MAX}, or 'auto' for one "
            "on each core."
        )
    return given


def count_from_text(text: str) -> Count:
    """Return what a person typed. Raises `ConfigurationError`."""
    words = text.strip()
    is_number = words.removeprefix("-").isascii() and words.removeprefix("-").isdigit() and len(words) < 10
    return checked_count(int(words) if is_number else words, "--members")


def usable_members(partitions: Mapping[str, int], assignor: str) -> int:
    """Return how many members of a group get a partition at most.

    The assignor that is the default deals each topic out by itself and begins with the same member, so the
    largest topic decides; `cooperative-sticky` deals all of them out together.
    """
    counts = partitions.values()
    return max(1, sum(counts) if assignor == "cooperative-sticky" else max(counts, default=1))


def members_to_start(given: Count, *, cores: int, usable: int) -> int:
    """Return how many members to start: as given, or one for each core that the partitions can feed."""
    return min(cores, usable) if given == AUTO else given
