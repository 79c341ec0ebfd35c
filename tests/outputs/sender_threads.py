"""What the sender has for its thread and its events in a history: nothing runs at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.outputs.sender_world import World

# The one that runs is the last.
WORLDS: list[World] = []


class Flag:
    """An event: who waits lets others go on."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Set it."""
        self._is_set = True

    def clear(self) -> None:
        """Clear it."""
        self._is_set = False

    def is_set(self) -> bool:
        """Tell whether it is set."""
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Let the world go on; the sender itself waits for what wakes it, the others for the sender."""
        world = WORLDS[-1]
        if self is world.sender._wake:
            world.meanwhile()
            if not self._is_set:
                world.clock.now_s += timeout_s
        else:
            may_act, world.may_act = world.may_act, False
            ends_s = world.clock.now_s + timeout_s
            while not self._is_set and world.clock.now_s < ends_s:
                world.sender._turn()
            assert self._is_set or not timeout_s, "an epoch's end waits for too long"
            world.may_act = may_act
        return self._is_set


class Standstill:
    """The sender's thread: runs where its end is waited for."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], **_given: Any) -> None:
        self._target, self._args = target, args
        self._has_ended = False

    def is_alive(self) -> bool:
        """Let others wait for it."""
        return not self._has_ended

    def join(self, _timeout_s: float) -> None:
        """Run to the end."""
        self._target(*self._args)
        self._has_ended = True
