"""What a check found: one frozen result a step, and the report over all of them.

Pure values. Holds only texts that are clean already (`cleaning`): no secret, no control character.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Status(enum.StrEnum):
    """How a step ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"  # a step that it needs has failed
    NOT_MEASURED = "not measured"  # it does not apply here, or nothing honest can be said


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One step. `subject` is the address or topic that it looked at, where there may be several.

    `fix` is the next step for a person, only on a failure; `exit_code` is what the failure ends the
    command with; `facts` is the machine's form of what `text` says.
    """

    name: str
    status: Status
    text: str
    subject: str | None = None
    fix: str | None = None
    duration_s: float = 0.0
    exit_code: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "subject": self.subject,
            "status": str(self.status),
            "text": self.text,
            "fix": self.fix,
            "duration_s": round(self.duration_s, 4),
            "facts": dict(self.facts),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results in the order in which they came."""

    endpoint: str
    group: str | None
    topics: tuple[str, ...]
    results: tuple[CheckResult, ...]

    @property
    def exit_code(self) -> int:
        """0 when nothing failed; else that of the first failure, which mostly is the cause of the others."""
        return next((r.exit_code for r in self.results if r.status is Status.FAILED), 0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "ok": self.exit_code == 0,
            "exit_code": self.exit_code,
            "endpoint": self.endpoint,
            "group": self.group,
            "topics": list(self.topics),
            "checks": [result.as_dict() for result in self.results],
        }
