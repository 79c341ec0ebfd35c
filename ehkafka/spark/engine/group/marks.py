"""What a run on Spark writes in the text of its commits: its name, and which checkpoint it continues. Pure.

Kafka takes commits from outside of a group from any client, so a run tells by these marks whether the group's
commits are still its own. Consumers read a mark as "nothing is finished above this commit". The facts of the
log and the group stand before the mark and are carried on as every commit carries them.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ehkafka.progress.metadata import NO_WORD, ON_SPARK, LogFacts, facts_word

_NONE = "-"


class Mark(NamedTuple):
    """A run's name; the name of its checkpoint, empty without one."""

    run: str
    checkpoint: str = ""

    @property
    def text(self) -> str:
        """What is committed where no fact is known."""
        return f"{ON_SPARK}{NO_WORD}.{self._words}"

    def beside(self, next_offset: int, facts: LogFacts, bytes_max: int) -> str:
        """Return what is committed with `next_offset`: the mark, and as many facts as fit with it."""
        room_bytes = bytes_max - len(ON_SPARK) - 1 - len(self._words)
        return f"{ON_SPARK}{facts_word(next_offset, facts, room_bytes)}.{self._words}"

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the mark that a commit carries; None for anything else."""
        if text is None or not text.startswith(ON_SPARK):
            return None
        # A run's name may have dots of its own.
        words = text.removeprefix(ON_SPARK).split(".", 2)[1:]
        if len(words) != 2 or not all(words):
            return None
        return cls(words[1], "" if words[0] == _NONE else words[0])

    @property
    def _words(self) -> str:
        return f"{self.checkpoint or _NONE}.{self.run}"
