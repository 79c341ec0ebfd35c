"""What an operator does: actions on keys, partitions and handlers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from ehkafka.events.event import Event
from ehkafka.wording.line import ending, plain

__all__ = ["ActionRefused", "ActionTaken"]


@dataclass(frozen=True, slots=True)
class ActionTaken(Event):
    """An action was carried out by hand. `changed` is False where all was so already."""

    # What was done (`pause`, `resume`, `retry`, `skip`, `dead_letter`, `start`, `stop`), to a `key`, a
    # `partition` or a `handler`, and to which.
    action: str
    target: str
    what: str
    # Who asked, and from where.
    by: str
    changed: bool
    result: str

    level: ClassVar[int] = logging.WARNING

    def sentence(self) -> str:
        return f"By hand: {ending(self.result)} Asked for by {ending(self.by)}"


@dataclass(frozen=True, slots=True)
class ActionRefused(Event):
    """An operator's action was refused; nothing changed."""

    action: str
    target: str
    what: str
    by: str
    reason: str
    text: str

    level: ClassVar[int] = logging.WARNING

    def sentence(self) -> str:
        return (
            f"Refused: {plain(self.action)} of {self.target} {plain(self.what)}, asked for by "
            f"{plain(self.by)}: {ending(self.text)}"
        )
