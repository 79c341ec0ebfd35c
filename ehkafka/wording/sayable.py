"""Text as JSON can say it: an error may hold bytes that Python keeps as halves of characters."""

from __future__ import annotations

from typing import Any


def sayable(value: Any) -> Any:
    """Return a value of JSON with such text escaped. For what was refused: it looks at all there is."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {sayable(str(name)): sayable(one) for name, one in value.items()}
    return [sayable(one) for one in value] if isinstance(value, list | tuple) else value
