"""Callbacks of the program that librdkafka calls inside `poll` and `consume`.

An exception must not leave such a callback: the records that were about to be returned would be dropped,
and the position has moved past them. Nor may one take the client away. Both are kept until the call is over
and the records are safe. Polling thread only.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.consumer.ending import LastCalls


class Callbacks:
    """Holds back what a call's callbacks do until the call is over. `report` is called when it does."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        # Whether there is something, so that the call should end.
        self.is_cut = False
        self.is_close_wanted = False
        # While the client is closed: they run on the program's thread all the same.
        self.last_calls: LastCalls | None = None
        # The first one of a call.
        self._error: BaseException | None = None

    def guard(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callback without its exceptions."""

        @functools.wraps(callback, updated=())
        def wrapped(*arguments: Any) -> Any:
            try:
                last_calls = self.last_calls
                if last_calls is not None:
                    return last_calls.at_home(callback, *arguments)
                return callback(*arguments)
            except BaseException as error:
                self._keep(error)
                return None

        return wrapped

    def close_later(self) -> None:
        """A callback wants the consumer to be closed."""
        self.is_cut = self.is_close_wanted = True
        self._report()

    def release(self) -> None:
        """Raise what was kept, once."""
        error, self._error = self._error, None
        self.is_cut = self.is_close_wanted = False
        if error is not None:
            raise error

    def _keep(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            self.is_cut = True
            self._report()
        else:  # one call raises one exception
            logging.getLogger("ehkafka").error("Another callback failed in the same call.", exc_info=error)
