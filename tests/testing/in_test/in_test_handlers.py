"""A handler for worker processes, which import it by its name."""

from __future__ import annotations

import time
from typing import Any


def double(record: Any) -> None:
    """Fail for what is no number."""
    int(record.value())


def sleep_long(record: Any) -> None:
    """Sleep for longer than any test lasts."""
    time.sleep(600)
