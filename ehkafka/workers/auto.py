"""`Auto`: how many workers a handler has is found out while it runs.

Pure values, checked when they are made. `auto_size` finds the number, `run.resizing` asks it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import made_plainly

# More is for handlers whose author knows why: each thread has a stack and, often, a connection.
THREADS_MAX, TASKS_MAX = 256, 2_000
# What a handler begins with: as `workers=16` has it, and a task costs next to nothing.
THREADS_FIRST, TASKS_FIRST = 16, 64
HIGHEST = 100_000


@made_plainly
@dataclass(frozen=True, slots=True)
class Auto:
    """Let the app find out how many workers a handler needs: as many as keep up, and no more than help.

    `workers="auto"` says the same as `workers=Auto()`. For plain functions, which run on threads, and for
    `async def`. While records wait for a worker it tries more, and keeps them if more records get done;
    where the handler computes, it tries fewer. Raises `ConfigurationError` for what cannot work.

    - `workers_min` (workers, default `1`): there are never fewer.
    - `workers_max` (workers, default `None`): there are never more. `None`: 256 threads, or 2 000 tasks of an
      `async def`.
    """

    workers_min: int = 1
    workers_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("workers_min", "workers_max"):
            value = getattr(self, name)
            is_open = value is None and name == "workers_max"
            if not is_open and (type(value) is not int or not 1 <= value <= HIGHEST):
                raise ConfigurationError(f"Auto({name}={value!r}): use a number from 1 to {HIGHEST}.")
        if self.workers_max is not None and self.workers_max < self.workers_min:
            raise ConfigurationError(
                f"Auto(workers_min={self.workers_min}, workers_max={self.workers_max}): workers_max is "
                f"below workers_min: exchange them."
            )

    @classmethod
    def read(cls, text: str) -> Auto:
        """Return what `auto`, `auto:2-64` or `auto:2-` says. Raises `ConfigurationError`."""
        found = re.fullmatch(r"auto(?::(\d{1,9})-(\d{0,9}))?", text.strip())
        if found is None:
            # Without the text, which may be a secret in the wrong place.
            raise ConfigurationError("give a number, auto, or auto:2-64 (2 to 64 workers)")
        least, most = found.groups()
        return cls() if least is None else cls(int(least), int(most) if most else None)

    def __str__(self) -> str:
        return "auto" if self == Auto() else f"auto:{self.workers_min}-{self.workers_max or ''}"

    def bounds(self, *, is_async: bool) -> Bounds:
        """Return what the number may be, and what it is at first."""
        least = self.workers_min
        most = self.workers_max or max(least, TASKS_MAX if is_async else THREADS_MAX)
        first = TASKS_FIRST if is_async else THREADS_FIRST
        return Bounds(least, min(most, max(least, first)), most)


class Bounds(NamedTuple):
    """How many workers there may be."""

    least: int
    first: int
    most: int
