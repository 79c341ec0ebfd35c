"""Handlers with outputs that write nothing down; importable by a child process."""

from __future__ import annotations

import time
from typing import Any


def plain(record: Any) -> str:
    """Send the offset."""
    return str(record.offset())


def slow(record: Any) -> str:
    """Send the offset, after a while."""
    time.sleep(0.002)
    return str(record.offset())


async def plain_async(record: Any) -> str:
    """Send the offset."""
    return str(record.offset())


class Instance:
    """Sends the offset."""

    def process(self, record: Any) -> str:
        """Handle a record."""
        return str(record.offset())


def copies(record: Any) -> Any:
    """Send what came, after a while."""
    time.sleep(0.002)
    return record.value()
