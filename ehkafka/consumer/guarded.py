"""Callbacks of the program that librdkafka calls inside `poll` and `consume`.

An exception must not leave such a callback: the records that were about to be returned would be dropped,
and the position has moved past them. It is kept, and comes out of the call when they are safe. Polling
thread only.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Guarded:
    """Holds the first exception of a call's callbacks until the call is over."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def guard(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callback without its exceptions."""

        @functools.wraps(callback, updated=())
        def guarded(*arguments: Any) -> Any:
            try:
                return callback(*arguments)
            except BaseException as error:
                self._keep(error)
                return None

        return guarded

    def release(self) -> None:
        """Raise what was kept, once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _keep(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        else:  # one call raises one exception
            logging.getLogger("ehkafka").error("Another callback failed in the same call.", exc_info=error)
