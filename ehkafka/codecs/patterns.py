"""Bounds how long JSON schemas' patterns and comparisons may take for one record.

Python's `re` can take hours for a short text, and no other thread runs meanwhile. While `bounded` calls a
validator, jsonschema's own modules search by `regex`, which gives up after a time and lets other threads run.
Nothing changes for other code of the process. Called by workers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.codecs.reason import Misfit

if TYPE_CHECKING:
    from collections.abc import Callable

SEARCH_S: Final = 2.0
"""How long the patterns of one record may take, and comparing its items, where they must differ."""

_here = threading.local()
_LOG = logging.getLogger("ehkafka")


def bounded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what may validate. Raises `Misfit`, and what it raises."""
    _here.until_s = time.monotonic() + SEARCH_S
    try:
        return function(*arguments)
    finally:
        _here.until_s = None


def bound_jsonschema() -> None:
    """Have jsonschema's modules ask here. Without the package `regex` they stay unbounded, with a warning."""
    if importlib.util.find_spec("regex") is None:
        _LOG.warning("The package regex is missing: a payload can take hours to match a schema's pattern.")
        return
    for name, module in [*sys.modules.items()]:
        if name.startswith("jsonschema.") and getattr(module, "re", None) is re:
            module.re = _PATTERNS  # type: ignore[attr-defined]
    utilities: Any = sys.modules["jsonschema._utils"]
    if utilities.equal.__module__ != __name__:
        utilities.equal = _bounded_equal(utilities.equal)


class _Patterns:
    """Stands for the module `re` in jsonschema's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(re, name)

    def search(self, pattern: str, text: str) -> Any:
        """Return what `re.search` does, or give up."""
        if (left_s := _left_s()) is None:
            return re.search(pattern, text)
        import regex  # noqa: PLC0415

        with contextlib.suppress(TimeoutError):
            return regex.search(pattern, text, timeout=left_s, concurrent=True)
        # Outside of that error, which would be taken for a network's.
        raise Misfit("matching it against its schema's patterns takes too long")


_PATTERNS: Final = _Patterns()


def _bounded_equal(equal: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, two: Any) -> bool:
        if _left_s() == 0:
            raise Misfit("comparing its items with each other takes too long")
        return equal(one, two)

    return compare


def _left_s() -> float | None:
    """Return how much time this thread's record has left; None outside of one."""
    until_s: float | None = getattr(_here, "until_s", None)
    return None if until_s is None else max(until_s - time.monotonic(), 0)
