"""What a check found: what a probe says of its step, one frozen result a step, and the report over all.

Pure values. A probe returns a `Finding`, or raises `Problem` or `NotMeasured`; their texts are raw. Results
hold only texts that `run` has cleaned: no secret, no control character.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, EndpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS_CODE = ConfigurationError.exit_code
BROKER_CODE = EndpointError.exit_code


@dataclass(frozen=True, slots=True)
class Finding:
    """The step is fine."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Problem(Exception):  # noqa: N818 - an answer of a probe, not an error of ours
    """The step failed: what was seen, and what a person can do about it."""

    def __init__(
        self, text: str, fix: str, *, exit_code: int = BROKER_CODE, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(text)
        self.text = text
        self.fix = fix
        self.exit_code = exit_code
        self.facts = facts or {}


class NotMeasured(Exception):  # noqa: N818 - likewise
    """The step does not apply here, or nothing honest can be said; the text tells which."""


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
