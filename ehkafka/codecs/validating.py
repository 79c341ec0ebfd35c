"""Bounds what it may take to validate one record by its JSON schema.

Python's `re` can take hours for a short text, and no other thread runs meanwhile. While `bounded` calls a
validator, jsonschema's own modules search by `regex`, which gives up after a time and lets other threads run,
and count the steps that can multiply. Nothing changes for other code of the process. Called by workers.
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
STEPS_MAX: Final = 10_000_000
"""How many steps one record may take: a comparison of items that must differ is one, a `$ref` is 20."""

# With these a schema leads into itself, so that each level of a payload may double the work.
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REFERENCE_STEPS: Final = 20


class _Left(threading.local):
    """What this thread's record may still spend; `search_s` is None outside of one."""

    search_s: float | None = None
    steps = 0


_left = _Left()
_LOG = logging.getLogger("ehkafka")


def bounded(function: Callable[..., object], *arguments: object) -> Any:
    """Call what may validate. Raises `Misfit`, and what it raises."""
    _left.search_s, _left.steps = SEARCH_S, STEPS_MAX
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
    utilities.equal = _counted(utilities.equal, 1)
    for kind in vars(sys.modules["jsonschema.validators"]).values():
        keywords = getattr(kind, "VALIDATORS", {})
        for name in keywords.keys() & _REFERENCES:
            keywords[name] = _counted(keywords[name], _REFERENCE_STEPS)


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


def _searched(pattern: str, text: str, left_s: float) -> object:
    import regex  # noqa: PLC0415 - an extra

    for limit_s, lets_others_run in ((QUICK_S, False), (left_s, True)):
        # What raises stands outside of that error, which would be taken for a network's.
        with contextlib.suppress(TimeoutError):
            if left_s:
                return regex.search(pattern, text, timeout=limit_s, concurrent=lets_others_run)
    raise Misfit("it takes too long to match the patterns of its schema")


def _counted(function: Callable[..., object], steps: int) -> Callable[..., Any]:
    if function.__module__ == __name__:
        return function

    def counted(*arguments: object) -> Any:
        _left.steps -= steps
        if _left.steps < 0 and _left.search_s is not None:
            raise Misfit("it takes too many steps to validate")
        return function(*arguments)

    return counted
