"""What a run on Spark writes beside its commits: who it is, and from which checkpoint it goes on. Pure.

Kafka takes commits from outside of a group from anybody, so a run tells by these marks whether the group's
commits are still its own. Consumers read a mark as "nothing is finished above this commit". The facts of the
log and the group stand before the mark and are carried on as every commit carries them.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ehkafka.progress.metadata import NO_WORD, ON_SPARK, LogFacts, facts_word

_RUNS, _ENDED, _NONE = "runs", "ended", "-"


class Mark(NamedTuple):
    """A run's name; the name of its checkpoint, empty without one; whether it ended in good order."""

    run: str
    checkpoint: str = ""
    has_ended: bool = False

    @property
    def text(self) -> str:
        """What is committed where no fact is known."""
        return f"{ON_SPARK}{NO_WORD}.{self._words}"

    def beside(self, next_offset: int, facts: LogFacts, bytes_max: int) -> str:
        """Return what is committed beside `next_offset`: the mark, and as many facts as fit with it."""
        room_bytes = bytes_max - len(ON_SPARK) - 1 - len(self._words)
        return f"{ON_SPARK}{facts_word(next_offset, facts, room_bytes)}.{self._words}"

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the mark that a commit carries; None for anything else."""
        if text is None or not text.startswith(ON_SPARK):
            return None
        # A run's name may have dots of its own.
        words = text.removeprefix(ON_SPARK).split(".", 3)[1:]
        if len(words) != 3 or words[0] not in (_RUNS, _ENDED) or not words[2]:
            return None
        return cls(words[2], "" if words[1] == _NONE else words[1], words[0] == _ENDED)

    @property
    def _words(self) -> str:
        return f"{_ENDED if self.has_ended else _RUNS}.{self.checkpoint or _NONE}.{self.run}"
