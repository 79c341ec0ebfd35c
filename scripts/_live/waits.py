"""How long probes wait on purpose. Pure. Tests scale all of it down."""

from __future__ import annotations

from dataclasses import dataclass

IDLE_S = 300.0  # Azure closes a connection after 240 s
FLOOD_S = 20.0
COMMITS_S = 10.0
BETWEEN_COMMITS_S = 1.0  # far from the pace at which the service throttles


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits, times `scale`, but never so short that nothing can be seen."""

    scale: float = 1.0

    @property
    def idle_s(self) -> float:
        """How long a connection is left alone."""
        return IDLE_S * self.scale

    @property
    def flood_s(self) -> float:
        """How long records are sent as quickly as possible."""
        return max(1.0, FLOOD_S * self.scale)

    @property
    def commits_s(self) -> float:
        """How long commits are sent as quickly as possible."""
        return max(1.0, COMMITS_S * self.scale)

    @property
    def between_commits_s(self) -> float:
        """The pause between commits that must not be throttled."""
        return BETWEEN_COMMITS_S * self.scale
