"""Ends Spark's Python worker together with a task that had to leave handlers running.

Spark keeps its workers for later tasks, and a thread cannot be ended: a handler that hangs would go on during
the next attempt of its own key, here or in another worker. So the process has to end, but not before its
task's result is sent, since Spark tries a task again whose worker is gone. A worker whose task raises is
ended by Spark itself. Called in workers only, on the task's thread.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any

_LOG = logging.getLogger("ehkafka.spark")


def end_process_after_task(left: Sequence[str]) -> bool:
    """Have this process end as soon as its task's result is sent; `left` is what still runs.

    False where Spark's daemon is not the one that is known: then the task must raise instead.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - nothing else shows who runs this task
    while frame is not None and not _is_daemon(frame):
        frame = frame.f_back
    if frame is None:
        return False
    _LOG.warning("This worker process ends with its task, because of what still runs: %s.", ", ".join(left))
    gc.callbacks.append(_between_tasks)
    return True


def _between_tasks(_phase: str, _found: dict[str, Any]) -> None:
    # The daemon collects garbage itself between two tasks, when the result of the one before is sent.
    if _is_daemon(sys._getframe(1)):  # noqa: SLF001 - whose collection this is
        _leave()


def _leave() -> None:
    """End without waiting for threads, as Spark ends its workers."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        # Their reader may have ended. Python only prints what a callback of the collector raises.
        os._exit(0)


def _is_daemon(frame: FrameType) -> bool:
    """Tell whether a frame is of the loop in which a worker of `pyspark.daemon` takes its tasks."""
    code = frame.f_code
    return code.co_name == "manager" and PurePath(code.co_filename).parts[-2:] == ("pyspark", "daemon.py")
