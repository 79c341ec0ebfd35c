"""Handlers of 20 ms of each kind. A module of its own: worker processes import it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

WORK_S = 0.02


def in_a_thread(_record: Any) -> None:
    """Block for as long as the work takes; also what runs in a worker process."""
    time.sleep(WORK_S)


async def in_a_task(_record: Any) -> None:
    """Await it."""
    await asyncio.sleep(WORK_S)


def in_a_batch(_batch: Any) -> None:
    """Take as long for a batch."""
    time.sleep(WORK_S)
