"""What kinds of values go to a topic that several handlers send to: reported once where these differ.

The start compares what handlers are annotated to return; what a `Send` or `record.send` takes elsewhere is
known only when it is sent. Bytes may be JSON that the handler has encoded, so nothing is refused then.
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
    """Hears what outlets put to shared topics. Any worker; a method of a dictionary is atomic."""

    def __init__(self, topics: Iterable[Iterable[str]], emit: Callable[[Event], None]) -> None:
        """`topics` has those of each handler."""
        count = Counter(topic for of_handler in topics for topic in set(of_handler))
        self.shared = frozenset(topic for topic, handlers in count.items() if handlers > 1)
        self._emit = emit
        # By topic: who was the first to send something there, and what; who was the first that differed.
        self._first: dict[str, tuple[str, str]] = {}
        self._differed: dict[str, tuple[str, str]] = {}

    def note(self, handler: str, made: Made) -> None:
        """Note what a handler sends."""
        topic, value, *_, content_type = made
        if topic not in self.shared or value is None:  # a tombstone is of no kind
            return
        its = handler, _KINDS[content_type]
        first = self._first.setdefault(topic, its)
        if first[0] != handler and first[1] != its[1] and self._differed.setdefault(topic, its) is its:
            self._emit(OutputKindsDiffer(topic, *first, *its))
