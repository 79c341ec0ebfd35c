"""Refuses failure policies that together send dead letters in circles, or let keys wait without end.

Pure; called once, before a run's threads exist. What one policy alone cannot be is refused where it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.errors import ConfigurationError
from ehkafka.recovery.policy import DeadLetter, Hold
from ehkafka.recovery.retry import NO_RETRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.recovery.policy import FailurePolicy
    from ehkafka.settings import OnParkedFull


class Recovering(Protocol):
    """The fields of a registered handler that are read here."""

    @property
    def name(self) -> str:
        """The handler's name."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it handles."""

    @property
    def retry(self) -> Any:
        """When a failed record is retried."""

    @property
    def on_failure(self) -> FailurePolicy:
        """The policy for a failed record."""


def check_recovery(handlers: Sequence[Recovering], on_parked_full: OnParkedFull) -> None:
    """Refuse what could not work. Raises `ConfigurationError` naming the handler and the fix."""
    _check_circles(handlers)
    if on_parked_full == "dead_letter":
        _check_way_out(handlers)


def _check_circles(handlers: Iterable[Recovering]) -> None:
    """Follow letters from handler to handler: a topic of letters may have a handler, but no way back."""
    leads_to = {topic: one for one in handlers for topic in one.topics}
    for first in handlers:
        way, here = [first.name], _next(first, leads_to)
        while here is not None and here.name not in way:
            way.append(here.name)
            here = _next(here, leads_to)
        if here is first:
            raise ConfigurationError(
                f"Dead letters go in a circle: {' → '.join([*way, first.name])}. A record that fails in "
                f"all of these handlers would be written again and again. Give one of these handlers another"
                " topic in on_failure=DeadLetter(…)."
            )


def _next(handler: Recovering, leads_to: dict[str, Recovering]) -> Recovering | None:
    policy = handler.on_failure
    if not isinstance(policy, DeadLetter) or not isinstance(policy.to, str):
        return None
    return leads_to.get(policy.to)


def _check_way_out(handlers: Iterable[Recovering]) -> None:
    for handler in handlers:
        parks = handler.retry is not NO_RETRY or isinstance(handler.on_failure, Hold)
        if parks and not isinstance(handler.on_failure, DeadLetter):
            raise ConfigurationError(
                f"on_parked_full='dead_letter', but handler {handler.name!r} has no dead-letter topic. Add "
                f"on_failure=DeadLetter(…) to the handler, or choose on_parked_full='pause_partition' or "
                f"'stop'."
            )
