"""A thread of a simulated process that calls what blocks: it runs only while the simulation waits for it.

So the real code of such a thread runs as it is, in virtual time, and a seed still gives the same run.
"""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.clock import Timer
    from tests.kit.simulated.member import SimulatedMember


class _EndedError(BaseException):
    """The process is gone, and this thread with it."""


class SideThread:
    """One member's. `begin`, `wake` and `close` are the simulation's; `park` and `sleep` its own."""

    def __init__(self, member: SimulatedMember, main: Callable[[], None]) -> None:
        self.member = member
        self._world = member.world
        self._main = main
        self._its_turn, self._our_turn = threading.Lock(), threading.Lock()
        self._its_turn.acquire()
        self._our_turn.acquire()
        self._timer: Timer | None = None
        self._is_ending = self._is_over = False
        self._waits = True
        self._thread = threading.Thread(target=self._run, name=member.name, daemon=True)
        self._is_begun = False
        self._world.transactions.sides.append(self)

    def wake(self) -> None:
        """Let it go on soon, if it waits."""
        if self._waits and not self._is_ending:
            self._set_timer(0.0)

    def close(self) -> None:
        """End it where it is."""
        self._is_ending = True
        if self._is_begun and not self._is_over:
            self._go_on()
            self._thread.join()

    def _set_timer(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._world.clock.call_after(after_s, self._resume)

    def _resume(self) -> None:
        if self.member.gone:
            self.close()
        elif not self.member.is_away(self._resume):
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._thread.start()
        if self._is_over:
            return
        self._waits = False
        self._world.transactions.running = self
        self._its_turn.release()
        self._our_turn.acquire()
        self._world.transactions.running = None

    # On the thread.

    def _run(self) -> None:
        self._its_turn.acquire()
        try:
            if not self._is_ending:
                self._main()
        except _EndedError:
            pass
        except BaseException:  # the core's own failure is what is looked for
            self._world.problem(traceback.format_exc())
        self._is_over = self._is_ending = True
        self._our_turn.release()

    def park(self) -> None:
        """Wait until `wake` is called."""
        if self._is_ending:
            raise _EndedError
        self._waits = True
        self._our_turn.release()
        self._its_turn.acquire()
        if self._is_ending:
            raise _EndedError

    def sleep(self, seconds: float) -> None:
        """Wait for so long, or until `wake` is called."""
        self._set_timer(seconds)
        self.park()
