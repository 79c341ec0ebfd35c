"""Runs a function that may hang on a daemon thread, and waits for it no longer than said.

A look-up of a name, a user's token callback and librdkafka's close have no time-out of their own. A thread
that is given up is left to itself; whatever it uses must not be used by anybody else afterwards.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Overdue(Exception):  # noqa: N818 - an answer, like a probe's own
    """The function had not returned in time; its thread still runs."""


def bounded(function: Callable[[], T], timeout_s: float, name: str) -> T:
    """Return what the function returns, or raise what it raises; raises `Overdue` after `timeout_s`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name=f"check-{name}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise Overdue(name)
    return results[0]
