"""Where code is that runs: stacks of threads, of tasks and of other processes, the user's own line first.

What lies outside of the user's first line is ours and Python's, the same in each stack, and is left out, as
are our lines in between. Values; any thread. No local variable is among them.
"""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any, Final

from ehkafka.wording.error_stack import frame_lines, is_ours, is_own_file, is_standard

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping
    from types import FrameType

# Of a recursion the first frames tell how it began, the last ones where it is.
_FIRST: Final = 5
_LAST: Final = 35
# An await chain that is longer is a runaway recursion.
_AWAITED_MAX: Final = 50
_DUMPED: Final = re.compile(r'  File "(?P<name>.*)", line ')


def thread_stack(frame: FrameType) -> str:
    """Return where a thread is whose innermost frame this is."""
    return live_stack([*traceback.walk_stack(frame)][::-1])


def task_stack(task: asyncio.Task[Any]) -> str:
    """Return where a suspended task is: its coroutine, and all that it awaits. Never raises if it moves on.

    `Task.get_stack` stops at the outermost coroutine, which here is always the pool's own.
    """
    frames: list[tuple[FrameType, int]] = []
    one: Any = task.get_coro()
    while len(frames) < _AWAITED_MAX:
        frame = _first(one, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        frames.append((frame, frame.f_lineno))
        one = _first(one, "cr_await", "gi_yieldfrom", "ag_await")
    return live_stack(frames)


def _first(awaitable: object, *names: str) -> Any:
    return next((found for name in names if (found := getattr(awaitable, name, None)) is not None), None)


def live_stack(frames: Iterable[tuple[FrameType, int]]) -> str:
    """Return frames with their lines, outermost first; all of them where none is the user's."""
    found = list(frames)
    kept = [one for one in found if not is_ours(one[0].f_code)]
    users = next((n for n, one in enumerate(kept) if not is_standard(one[0].f_code.co_filename)), None)
    shown = found if users is None else kept[users:]
    left_out = len(shown) - _FIRST - _LAST
    lines = list(frame_lines(shown if left_out <= 0 else shown[:_FIRST]))
    if left_out > 0:
        lines += [f"  ({left_out} more frames)", *frame_lines(shown[-_LAST:])]
    return "".join(f"{line}\n" for line in lines)


def dumped_stack(dump: str) -> str:
    """Return what `faulthandler` wrote of a process, innermost first, without threads that run none of it."""
    threads = []
    for thread in dump.split("\n\n"):
        head, *lines = thread.splitlines()
        names = [found["name"] for line in lines if (found := _DUMPED.match(line))]
        kept = [(line, name) for line, name in zip(lines, names, strict=False) if not _is_no_users(name)]
        if any(not is_standard(name) for _, name in kept):
            threads.append("\n".join([head, *(line for line, _ in kept)]))
    return "\n\n".join(threads) or dump


def _is_no_users(name: str) -> bool:
    return is_own_file(name) or name == "<string>"


def stacks_text(stacks: Mapping[str, str]) -> str:
    """Return the stacks of workers, by their names; those that are at the same line stand together."""
    same: dict[str, list[str]] = {}
    for name, stack in stacks.items():
        same.setdefault(stack, []).append(name)
    return "\n".join(f"{', '.join(names)}\n{stack}" for stack, names in same.items())
