"""What a run on Spark writes beside its commits: who it is, and from which checkpoint it goes on. Pure.

Kafka takes commits from outside of a group from anybody, so a run tells by these marks whether the group's
commits are still its own. Consumers read a mark as "nothing is finished above this commit".
"""

from __future__ import annotations

from typing import NamedTuple, Self

from ehkafka.progress.ranges import ON_SPARK

_RUNS, _ENDED, _NONE = "runs", "ended", "-"


class Mark(NamedTuple):
    """A run's name; the name of its checkpoint, empty without one; whether it ended in good order."""

    run: str
    checkpoint: str = ""
    has_ended: bool = False

    @property
    def text(self) -> str:
        """What is committed."""
        state = _ENDED if self.has_ended else _RUNS
        return f"{ON_SPARK}{state}.{self.checkpoint or _NONE}.{self.run}"

    @classmethod
    def read(cls, text: str | None) -> Self | None:
        """Return the mark that a commit carries; None for anything else."""
        if text is None or not text.startswith(ON_SPARK):
            return None
        # A run's name may have dots of its own.
        words = text.removeprefix(ON_SPARK).split(".", 2)
        if len(words) != 3 or words[0] not in (_RUNS, _ENDED) or not words[2]:
            return None
        return cls(words[2], "" if words[1] == _NONE else words[1], words[0] == _ENDED)
