"""Probes: live, startup, ready and health, each with its reasons.

`live` fails only for what a restart of the process cures, `ready` for what keeps the app from its work now.
Neither is about records: a key on hold must not stop the roll-out of its own fix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.http.served import Served

REASONS_MAX: Final = 100
Answer = tuple[int, dict[str, Any]]
OK, UNAVAILABLE = 200, 503


class Probes:
    """Answers as (status, body). Any thread."""

    def __init__(self, served: Served) -> None:
        self._served = served
        # Kubernetes asks until it is green once; a rebalance later on is no start.
        self._has_started = False

    def live(self) -> Answer:
        """Fail only for what a restart cures."""
        state = self._served.state
        reasons = self._served.current_run.not_live()
        if state == "stopped" and not reasons:
            reasons = ("The app has stopped.",)
        return _answer(reasons, state)

    def startup(self) -> Answer:
        """Fail until the broker has answered and the group is joined, once."""
        reasons = () if self._has_started else self._served.current_run.not_started()
        self._has_started |= not reasons
        return _answer(reasons, self._served.state)

    def ready(self) -> Answer:
        """Fail while no broker answers, the group is not joined, or the app stops."""
        return _answer(self._served.current_run.not_ready(), self._served.state)

    def health(self) -> Answer:
        """Return all that is wrong."""
        health = self._served.health()
        return OK if health.ok else UNAVAILABLE, shown(health.as_dict())


def shown(health: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `Health.as_dict` made, up to a number of reasons, and how many problems there are."""
    problems = len(health["reasons"])
    reasons = list(health["reasons"][:REASONS_MAX])
    if problems > REASONS_MAX:
        reasons.append(f"{problems - REASONS_MAX} more problems are left out here.")
    return {**health, "reasons": reasons, "problems": problems}


def _answer(reasons: tuple[str, ...], state: str) -> Answer:
    return UNAVAILABLE if reasons else OK, {"ok": not reasons, "state": state, "reasons": list(reasons)}
