"""What the page and `top` show: one value, made of the app's picture and of what happened lately."""

from __future__ import annotations

import os
import platform
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.http.answers import joined, state_of
from ehkafka.http.journal import shortened
from ehkafka.http.measures import EVERY_S, Past, Rates
from ehkafka.http.panels import panels, tiles
from ehkafka.http.probes import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.http.answers import States
    from ehkafka.http.journal import Journal
    from ehkafka.http.served import Served

# However many ask, the app is looked at so often at most.
FRESH_S: Final = 0.5
# Keys that are listed; how long an error of one is: a wrong record can make it as long as it likes.
KEYS_MAX: Final = 500
ERROR_CHARACTERS_MAX: Final = 500


class State:
    """Made by whichever thread asks; asked again too soon, the last one is given."""

    def __init__(
        self,
        served: Served,
        journal: Journal,
        *,
        version: str,
        shows_values: bool,
        of_members: Callable[..., Sequence[States]] = lambda **_values: (),
    ) -> None:
        """`of_members` asks the processes that this one looks after, with values or without."""
        self._served = served
        self._journal = journal
        self._of_members = of_members
        self._version = version
        self._shows_values = shows_values
        self._past, self._rates = Past(), Rates()
        self._past_s = float("-inf")
        self._lock = threading.Lock()
        # Under the lock: the last one, and when it was made.
        self._last: dict[str, Any] | None = None
        self._made_s = float("-inf")
        self._began_s = time.monotonic()

    def get(self) -> dict[str, Any]:
        """Return it. Not from an event loop: it takes locks of the engine for a moment."""
        with self._lock:
            now_s = time.monotonic()
            if self._last is None or now_s >= self._made_s + FRESH_S:
                self._last = self._make(now_s)
                self._made_s = now_s
            return self._last

    def sample(self) -> None:
        """Take a point of the plots."""
        # Also without a request: what a member noted is gone with its process.
        self._of_members(values=self._shows_values)
        with self._lock:
            now_s = time.monotonic()
            if now_s >= self._past_s + EVERY_S - FRESH_S:
                self._take_point(now_s)

    def forget(self) -> None:
        """Make it anew at the next question: something was just changed."""
        self._made_s = float("-inf")

    def _make(self, now_s: float) -> dict[str, Any]:
        if now_s >= self._past_s + EVERY_S:
            self._take_point(now_s)
        members = self._of_members(values=self._shows_values)
        own_keys = [] if members else self._served.keys.waiting(values=self._shows_values)
        found = joined(state_of(self._served, self._journal, own_keys), members)
        state = {
            **found,
            "health": shown(found["health"]),
            "keys": [_cut(one) for one in found["keys"][:KEYS_MAX]],
            "keys_left_out": max(0, len(found["keys"]) - KEYS_MAX),
            "history": self._past.as_dict(),
            "process": {
                "pid": os.getpid(),
                "version": self._version,
                "python": platform.python_version(),
                "uptime_s": now_s - self._began_s,
                "rss_bytes": _rss_bytes(),
                "threads": threading.active_count(),
                "host": socket.gethostname(),
            },
            "letters": {"topics": list(self._served.letter_topics)},
        }
        self._rates.note(state["snapshot"])
        return state | {"tiles": tiles(state, self._rates), "panels": panels(state, self._rates)}

    def _take_point(self, now_s: float) -> None:
        self._past.add(self._served.snapshot())
        self._past_s = now_s


def _cut(key: dict[str, Any]) -> dict[str, Any]:
    return key | {name: shortened(key[name], ERROR_CHARACTERS_MAX) for name in ("state", "last_error")}


def _rss_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no path of a user's
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # not on Linux
        return None
