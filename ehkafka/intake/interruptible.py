"""Asks the broker in a way that lets Ctrl-C through.

A signal's handler runs in the main thread between two of its bytecodes, and librdkafka's requests are one
long call in C. So the main thread lets another one ask and waits in Python. Called while an app starts; the
client belongs to the asking thread until that has returned.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# A wait without end would keep signals from being handled on some platforms.
SLICE_S = 0.5


def interruptible(ask: Callable[[], T], give_up: Callable[[], object]) -> T:
    """Return what `ask` returns, or raise what it raises.

    What a signal raises meanwhile ends the wait at once. `give_up` is then called as soon as `ask` has
    returned, for nobody else may use the client before. Other threads than the main one just ask.
    """
    if threading.current_thread() is not threading.main_thread():
        return ask()
    asking = _Asking(ask, give_up)
    try:
        # Within the block: a thread's start waits, too.
        threading.Thread(target=asking.run, name="ehkafka-reach", daemon=True).start()
        while not asking.done.wait(SLICE_S):
            pass
    except BaseException:
        asking.leave()
        raise
    if asking.error is not None:
        raise asking.error
    return asking.answers[0]


class _Asking(Generic[T]):
    """One question; whoever comes last, the one who leaves or the answer, gives the client up."""

    def __init__(self, ask: Callable[[], T], give_up: Callable[[], object]) -> None:
        self._ask = ask
        self._give_up = give_up
        self._lock = threading.Lock()
        self._left = False
        self.done = threading.Event()
        self.answers: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answers.append(self._ask())
        except BaseException as error:  # raised again where the answer is waited for
            self.error = error
        with self._lock:
            self.done.set()
            left = self._left
        if left:
            self._give_up()

    def leave(self) -> None:
        with self._lock:
            self._left = True
            done = self.done.is_set()
        if done:
            self._give_up()
