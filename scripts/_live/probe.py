"""What a probe is, and what it answers. Pure values.

A probe is a function of the `Site`. It returns an `Observed`, or raises `NotTried` with the reason. Any other
error counts as not tried, too, and is reported with its text; it never stops the other probes.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from _live.site import Site

DOCS = "https://learn.microsoft.com/azure/event-hubs"
QUOTAS = f"{DOCS}/event-hubs-quotas"
CLIENT_SETTINGS = f"{DOCS}/apache-kafka-configurations"
OVERVIEW = f"{DOCS}/azure-event-hubs-apache-kafka-overview"


class Status(enum.StrEnum):
    """How a probe ended."""

    OK = "ok"
    DIFFERS = "differs"
    # The documentation has no number for it, or depends on what is not known: it is written down.
    NOTED = "noted"
    UNTRIED = "could not be tried"


class NotTried(Exception):  # noqa: N818 - an answer of a probe, not an error of ours
    """The probe does not apply here, or needs what is not there; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a probe has seen: one sentence, and the same for machines."""

    status: Status
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def ok(text: str, **facts: Any) -> Observed:
    """It is as documented."""
    return Observed(Status.OK, text, facts)


def differs(text: str, **facts: Any) -> Observed:
    """It is not as documented, or the engine does not work as it should."""
    return Observed(Status.DIFFERS, text, facts)


def noted(text: str, **facts: Any) -> Observed:
    """The documentation leaves it open."""
    return Observed(Status.NOTED, text, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe. Its costs are upper bounds, for the plan that a person agrees to.

    `needs` are probes that must not have failed, `permission` the option without which it is not tried,
    `creates` what it creates in words.
    """

    name: str
    documented: str
    link: str
    function: Callable[[Site], Observed]
    expected_s: float
    limit_s: float = 60.0
    needs: tuple[str, ...] = ("login", "topics")
    permission: str | None = None
    records: int = 0
    kilobytes: int = 0
    creates: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the report has of one probe; its texts are clean."""

    name: str
    documented: str
    link: str
    status: Status
    seen: str
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "documented": self.documented,
            "link": self.link,
            "status": str(self.status),
            "seen": self.seen,
            "seconds": round(self.seconds, 2),
            "facts": self.facts,
        }
