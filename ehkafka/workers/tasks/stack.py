"""Where a suspended asyncio task is: the frames of its coroutine and of all that it awaits.

`Task.get_stack` stops at the outermost coroutine, which here is always the pool's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.wording.live_stack import live_stack

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

# An await chain longer than this is a runaway recursion; its first frames tell that, too.
FRAMES_MAX = 50


def await_stack(task: asyncio.Task[Any]) -> str:
    """Return the frames of a task, outermost first, as text. Any thread; never raises for a moving task."""
    return live_stack((frame, frame.f_lineno) for frame in _frames(task.get_coro()))


def _frames(awaitable: Any) -> Iterator[Any]:
    for _ in range(FRAMES_MAX):
        frame = _first(awaitable, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            return
        yield frame
        awaitable = _first(awaitable, "cr_await", "gi_yieldfrom", "ag_await")


def _first(awaitable: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(awaitable, name, None)) is not None), None)
