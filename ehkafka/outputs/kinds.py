"""What kinds of values go to a topic that several handlers send to: reported once where these differ.

The start compares what handlers are annotated to return; what a `Send` or `record.send` takes elsewhere is
known only when it is sent. Bytes may be JSON that the handler has encoded, so nothing is refused then.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from ehkafka.events import OutputKindsDiffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.events import Event


class TopicKinds:
    """Hears what outlets send to shared topics. Any worker."""

    def __init__(self, topics: Iterable[Iterable[str]], emit: Callable[[Event], None]) -> None:
        """`topics` has those of each handler."""
        count = Counter(topic for of_handler in topics for topic in set(of_handler))
        self.shared = frozenset(topic for topic, handlers in count.items() if handlers > 1)
        self._emit = emit
        self._lock = threading.Lock()
        # By topic: who was the first to send something there, and what. Under the lock.
        self._first: dict[str, tuple[str, str]] = {}
        self._reported: set[str] = set()

    def note(self, topic: str, handler: str, kind: str) -> None:
        """Note that a handler sends a kind of values to a shared topic; called once for each by an outlet."""
        with self._lock:
            first_handler, first_kind = self._first.setdefault(topic, (handler, kind))
            if kind == first_kind or handler == first_handler or topic in self._reported:
                return
            self._reported.add(topic)
        self._emit(OutputKindsDiffer(topic, first_handler, first_kind, handler, kind))


def kind_of(value: object) -> str | None:
    """Return what a value is encoded as; None: a tombstone, which is none."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes"
    return "text" if isinstance(value, str) else "JSON"
