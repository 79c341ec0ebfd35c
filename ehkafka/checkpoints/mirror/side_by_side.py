"""Does the same for many blobs, several at a time: an answer takes its time however little it holds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def side_by_side(
    work: Callable[[T], object], items: Iterable[T], at_once: int, is_over: Callable[[], bool]
) -> bool:
    """Do the work for each item, in order, up to `at_once` at a time; True if any was begun.

    Nothing begins once it `is_over`, nor after an error: the first is raised when all calls have ended.
    """
    waiting, lock = list(items)[::-1], threading.Lock()
    count, errors = len(waiting), list[BaseException]()

    def take_turns() -> None:
        while True:
            with lock:
                if not waiting or errors or is_over():
                    return
                item = waiting.pop()
            try:
                work(item)
            except BaseException as error:  # raised below, where all this was asked for
                errors.append(error)

    # Of this call alone: a store that hangs must not keep the next one, nor the process, from its end.
    others = [threading.Thread(target=take_turns, daemon=True) for _ in range(min(at_once, count) - 1)]
    for number, thread in enumerate(others):
        thread.name = f"ehkafka-mirror-{number}"
        thread.start()
    take_turns()
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
    return len(waiting) < count
