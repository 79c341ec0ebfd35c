"""Whose turn it is to collect a batch. Batch workers and the poll thread; its lock is a leaf.

Who has taken a batch passes the turn on before it runs it. Where batches are quick it *keeps* the turn: it is
back before another one is awake, and both would ask for the interpreter's lock. If it is not, the poll thread
takes the turn away: so it is kept only while that one looks each millisecond.

The turn goes to whoever came last, so that few workers have all that few can do: in the order of their
coming, sixteen would each be woken for every sixteenth batch.
"""

from __future__ import annotations

import threading
from typing import Final

# How long a turn is kept at most while its worker runs a batch.
KEPT_S: Final = 1e-3


class Turn:
    """One worker has it, or none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # All under the lock. Whether somebody has it, and who waits for it: their gates, locked locks, the
        # last comer's at the end. Who takes one out passes the turn on to it, and releases it.
        self._is_taken = False
        self._waiting: list[threading.Lock] = []
        # Whose worker runs a batch and keeps the turn meanwhile, and since when.
        self._keeper: threading.Lock | None = None
        self._kept_since_s = 0.0
        # Whether a turn may be kept: somebody would take it away. Once closed it never may again.
        self._may_keep = False
        self._is_closed = False

    @property
    def is_taken(self) -> bool:
        """Whether a worker collects, or was woken to, or keeps the turn."""
        return self._is_taken

    def begin(self, gate: threading.Lock) -> None:
        """Take the turn; waits as long as it takes."""
        with self._lock:
            if self._keeper is gate:
                self._keeper = None
                return
            if not self._is_taken:
                self._is_taken = True
                return
            self._waiting.append(gate)
        gate.acquire()

    def end(self, gate: threading.Lock, kept_since_s: float | None = None) -> None:
        """Pass the turn on, or keep it while a batch runs, from that time on."""
        with self._lock:
            if kept_since_s is None or not self._may_keep or self._is_closed:
                self._pass_on()
            else:
                self._keeper, self._kept_since_s = gate, kept_since_s

    def leave(self, gate: threading.Lock) -> None:
        """Pass the turn on if this worker has kept it."""
        with self._lock:
            if self._keeper is gate:
                self._pass_on()

    def take_away(self) -> None:
        """Pass on what somebody keeps. Any thread."""
        with self._lock:
            self._take_away()

    def allow(self, *, keeping: bool) -> None:
        """Say whether a turn may be kept from here on. Poll thread: while it looks each millisecond."""
        with self._lock:
            self._may_keep = keeping
            if not keeping:
                self._take_away()

    def close(self) -> None:
        """Let nobody keep the turn any more: all others are to leave, whatever runs. Any thread."""
        with self._lock:
            self._is_closed = True
            self._take_away()

    def watch(self, now_s: float) -> bool:
        """Pass on what was kept for too long; True while it is kept. Poll thread."""
        if self._keeper is None:
            return False
        with self._lock:
            if self._keeper is None:
                return False
            if now_s - self._kept_since_s <= KEPT_S:
                return True
            self._pass_on()
            return False

    def _take_away(self) -> None:
        if self._keeper is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        self._keeper = None
        if self._waiting:
            self._waiting.pop().release()
        else:
            self._is_taken = False
