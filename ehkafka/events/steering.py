"""What an operator does: actions on keys, partitions and handlers."""

from __future__ import annotations

from logging import WARNING

from ehkafka.events.event import Event
from ehkafka.wording.line import ending, plain


class ActionTaken(Event, level=WARNING):
    """An operator's action was carried out. `changed` is False if the action had no effect."""

    # What was done (`pause`, `resume`, `retry`, `skip`, `dead_letter`, `start`, `stop`), to a `key`, a
    # `partition` or a `handler`, and to which.
    action: str
    target: str
    what: str
    # Who asked, and from where.
    by: str
    changed: bool
    result: str

    def sentence(self) -> str:
        return f"Action: {ending(self.result)} Requested by {ending(self.by)}"


class ActionRefused(Event, level=WARNING):
    """An operator's action was refused; nothing changed."""

    action: str
    target: str
    what: str
    by: str
    reason: str
    text: str

    def sentence(self) -> str:
        return (
            f"Refused: {plain(self.action)} of {self.target} {plain(self.what)}, requested by "
            f"{plain(self.by)}: {ending(self.text)}"
        )
