"""Tries whether a side keeps order per key: asked with `"check_order": true`, it says so as its last line.

Standard library only. The last line is `{"checked": n, "swapped": n, "overlapping": n}`: `swapped` records
began after a later record of their key, `overlapping` ones began while another of their key was handled.
It costs a lock for each record, so it is never on while anything is measured.
"""

from __future__ import annotations

import json
import sys
import threading


class OrderCheck:
    """Notes when each record's handler begins and ends. Any thread may call it."""

    def __init__(self) -> None:
        self.asked = bool(json.loads(sys.argv[1]).get("check_order"))
        self._lock = threading.Lock()
        self._latest: dict[tuple[int, object], int] = {}
        self._running: dict[tuple[int, object], int] = {}
        self._checked = self._swapped = self._overlapping = 0

    def begin(self, partition: int, key: object, offset: int) -> None:
        """Hear that a record's handler begins."""
        lane = (partition, key)
        with self._lock:
            self._checked += 1
            self._swapped += offset <= self._latest.get(lane, -1)
            self._latest[lane] = max(offset, self._latest.get(lane, -1))
            self._overlapping += self._running.get(lane, 0) > 0
            self._running[lane] = self._running.get(lane, 0) + 1

    def end(self, partition: int, key: object) -> None:
        """Hear that it has ended."""
        with self._lock:
            self._running[partition, key] -= 1

    def say(self) -> None:
        """Print what was seen, if it was asked for."""
        if self.asked:
            with self._lock:
                seen = {
                    "checked": self._checked,
                    "swapped": self._swapped,
                    "overlapping": self._overlapping,
                }
            sys.stdout.write(json.dumps(seen) + "\n")
            sys.stdout.flush()
