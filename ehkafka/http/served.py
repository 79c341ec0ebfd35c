"""What is served: an app, or the supervisor of its members, as far as HTTP reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ehkafka.checks.target import AnApp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ehkafka.run.run import Run
    from ehkafka.run.steer.action import ActionResult
    from ehkafka.run.steer.keys import KeyState
    from ehkafka.telemetry.snapshot import Health, Snapshot


class ServedKeys(Protocol):
    """Its keys."""

    def waiting(self, *, values: bool = False) -> list[KeyState]:
        """Return those that hold a commit, then others that wait."""

    def act(self, asked: Mapping[str, Any]) -> ActionResult:
        """Carry out an action. Raises `ActionRefusedError`."""


class Served(AnApp, Protocol):
    """All methods may be called from any thread, and may take a while: never from an event loop."""

    @property
    def state(self) -> str:
        """Where it is in its life."""

    @property
    def keys(self) -> ServedKeys:
        """Its keys."""

    @property
    def letter_topics(self) -> tuple[str, ...]:
        """The topics of its dead letters."""

    def snapshot(self) -> Snapshot:
        """Return its picture."""

    def health(self) -> Health:
        """Return whether all is well."""

    @property
    def current_run(self) -> Run:
        """The run that the app holds."""
