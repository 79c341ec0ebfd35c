"""A handler for worker processes, which import it by its name."""

from __future__ import annotations

from typing import Any


def double(record: Any) -> None:
    """Fail for what is no number."""
    int(record.value())
