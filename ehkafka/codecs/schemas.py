"""Which schemas a registry knows: each is asked for once, and ids that it lacks hold up no other record.

A producer can name any number of ids. So only some questions run at a time, one for each id; other records
are retried later and leave their workers to records of known schemas. Ids that the registry lacks are
remembered for some seconds, schemas for longer, and both up to a number. Called by workers.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.codecs.reason import Misfit
from ehkafka.records.signals import RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable

RETRY_S: Final = 2.0
"""After how many seconds a record is retried whose schema could not be asked for."""
SCHEMAS_MAX: Final = 1_000
"""How many schemas are kept, and as many ids that the registry lacks."""
UNKNOWN_S: Final = 10.0
"""How long it counts that the registry lacks an id."""
ASKED_MAX: Final = 4
"""How many questions run at a time."""
BUSY_RETRY_S: Final = 0.2
ANSWER_S: Final = 1.0
"""How long a worker waits for the answer to another one's question."""


class NoSchema(Misfit):
    """A record names no schema, or one that the registry lacks."""


class Schemas:
    """What one registry is known to have, by a name for each schema."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        # All of these under the lock, as is what changes `known`.
        self._unknown: dict[str, tuple[float, str]] = {}
        self._asked: dict[str, threading.Event] = {}
        self._down_until_s = 0.0
        self._lock = threading.Lock()

    def get(self, name: str, ask: Callable[[], object]) -> Any:
        """Return what `ask` returned for a schema, here or in another thread.

        Raises what `ask` raises: `NoSchema` if the registry lacks it, `RetryLater` if it cannot be asked.
        """
        with self._lock:
            if (known := self.known.get(name)) is not None:
                return known
            self._refuse_at_once(name)
            asked = self._asked.get(name)
            if asked is None:
                if len(self._asked) >= ASKED_MAX:
                    raise RetryLater(
                        BUSY_RETRY_S, "the schema registry is busy with requests for other schemas"
                    )
                answered = self._asked[name] = threading.Event()
        if asked is None:
            return self._answer(name, answered, ask)
        if not asked.wait(ANSWER_S):
            raise RetryLater(BUSY_RETRY_S, "the schema registry has not answered yet")
        return self.get(name, ask)

    def _refuse_at_once(self, name: str) -> None:
        until_s, reason = self._unknown.get(name, (0.0, ""))
        now_s = time.monotonic()
        if now_s < until_s:
            raise NoSchema(reason)
        if now_s < self._down_until_s:
            raise RetryLater(RETRY_S, "the schema registry did not answer a moment ago")

    def _answer(self, name: str, answered: threading.Event, ask: Callable[[], object]) -> object:
        try:
            found = ask()
            with self._lock:
                _keep(self.known, name, found)
        except NoSchema as error:
            with self._lock:
                _keep(self._unknown, name, (time.monotonic() + UNKNOWN_S, str(error)))
            raise
        except RetryLater:
            self._down_until_s = time.monotonic() + RETRY_S / 2
            raise
        finally:
            with self._lock:
                del self._asked[name]
            answered.set()
        return found


def _keep(kept: dict[str, Any], name: str, what: object) -> None:
    kept.pop(name, None)
    kept[name] = what
    if len(kept) > SCHEMAS_MAX:
        del kept[next(iter(kept))]
