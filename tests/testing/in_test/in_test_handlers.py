"""Handlers for worker processes, which import them by their names."""

from __future__ import annotations

import time
from typing import Any


def double(record: Any) -> None:
    """Fail for what is no number."""
    int(record.value())


def sleep_long(record: Any) -> None:
    """Sleep for longer than any test lasts."""
    time.sleep(600)


def doubled(record: Any) -> dict[str, int] | None:
    """Send twice the number, and nothing for 0; `record.send` says which number it was."""
    number = int(record.value())
    if number == 0:
        return None
    record.send(str(number), topic="seen")
    return {"doubled": 2 * number}
