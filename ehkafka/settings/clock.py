"""The clock of a run: one value that all of a run asks for the time.

Real unless a test gives another. What belongs to the client library or to the operating system goes by their
own: a broker's silence, tokens, credentials, threads that are joined.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def _never(_wake: Callable[[], object]) -> Callable[[], object]:
    return lambda: None


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from.

    - `now_s` (default `time.monotonic`): seconds that only rise; timers, deadlines and rates go by them.
    - `wall_s` (default `time.time`): seconds since 1970; the age of a record goes by them.
    - `on_jump` (default: never): calls what it is given whenever time has jumped, so that who sleeps looks
      again; returns what ends that.
    """

    now_s: Callable[[], float] = time.monotonic
    wall_s: Callable[[], float] = time.time
    on_jump: Callable[[Callable[[], object]], Callable[[], object]] = _never


REAL_CLOCK: Final = Clock()
