"""Reports once for each topic that handlers send different kinds of values to it.

The start compares the return annotations of handlers. The kind of a value in a `Send` or a `record.send` is
known only when it is sent. Nothing is refused then, because bytes may be JSON that the handler has encoded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ehkafka.codecs.plain import BYTES, JSON, TEXT
from ehkafka.events import OutputKindsDiffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.events import Event
    from ehkafka.outputs.encoding import Made

_KINDS = {BYTES.content_type: "bytes", TEXT.content_type: "text", JSON.content_type: "JSON"}


class TopicKinds:
    """Compares the values that outlets put. Called by any worker: a method of a dictionary is atomic."""

    def __init__(self, topics: Iterable[Iterable[str]], emit: Callable[[Event], None]) -> None:
        """`topics` has the topics of each handler."""
        count = Counter(topic for of_handler in topics for topic in set(of_handler))
        self.shared = frozenset(topic for topic, handlers in count.items() if handlers > 1)
        self._emit = emit
        # By topic: the first handler and its kind; the first handler with another kind.
        self._first: dict[str, tuple[str, str]] = {}
        self._differed: dict[str, tuple[str, str]] = {}

    def note(self, handler: str, made: Made) -> None:
        """Note a message of a handler."""
        topic, value, *_, content_type = made
        if topic not in self.shared or value is None:  # a tombstone has no kind
            return
        its = handler, _KINDS[content_type]
        first = self._first.setdefault(topic, its)
        if first[0] != handler and first[1] != its[1] and self._differed.setdefault(topic, its) is its:
            self._emit(OutputKindsDiffer(topic, *first, *its))
