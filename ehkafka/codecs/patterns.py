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
"""How much of a processor's time the patterns of one record may take."""
QUICK_S: Final = 0.02
"""How long a search may keep other threads from running: longer than any but a hostile one takes."""
COMPARISONS_MAX: Final = 10_000_000
"""How many values of one record may be compared with each other, where a schema wants them to differ."""


class _Left(threading.local):
    """What this thread's record may still spend; `search_s` is None outside of one."""

    search_s: float | None = None
    comparisons = 0


_left = _Left()
_LOG = logging.getLogger("ehkafka")


def bounded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what may validate. Raises `Misfit`, and what it raises."""
    _left.search_s, _left.comparisons = SEARCH_S, COMPARISONS_MAX
    try:
        return function(*arguments)
    finally:
        _left.search_s = None


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
        if (left_s := _left.search_s) is None:
            return re.search(pattern, text)
        began_s = time.thread_time()
        try:
            return _searched(pattern, text, left_s)
        finally:
            _left.search_s = max(left_s - (time.thread_time() - began_s), 0.0)


_PATTERNS: Final = _Patterns()


def _searched(pattern: str, text: str, left_s: float) -> Any:
    import regex  # noqa: PLC0415 - an extra

    for limit_s, lets_others_run in ((QUICK_S, False), (left_s, True)):
        # What raises stands outside of that error, which would be taken for a network's.
        with contextlib.suppress(TimeoutError):
            if left_s:
                return regex.search(pattern, text, timeout=limit_s, concurrent=lets_others_run)
    raise Misfit("matching it against its schema's patterns takes too long")


def _bounded_equal(equal: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, two: Any) -> bool:
        _left.comparisons -= 1
        if _left.comparisons < 0 and _left.search_s is not None:
            raise Misfit("comparing its items with each other takes too long")
        return equal(one, two)

    return compare
