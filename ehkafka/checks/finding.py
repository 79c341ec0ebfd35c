"""How a probe says what it found: it returns a `Finding`, or raises `Trouble` or `NotMeasured`.

Their texts are raw: `run` cleans them before anybody sees them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ehkafka.errors import ConfigurationError, EndpointError

SETTINGS_CODE = ConfigurationError.exit_code
BROKER_CODE = EndpointError.exit_code


@dataclass(frozen=True, slots=True)
class Finding:
    """The step is fine."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Trouble(Exception):  # noqa: N818 - an answer of a probe, not an error of ours
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
