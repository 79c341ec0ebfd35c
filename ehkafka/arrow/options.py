"""The arguments of `read`, checked, and the words of its messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.ranges.loss import Words
from ehkafka.ranges.options import RangeOptions

if TYPE_CHECKING:
    from ehkafka.endpoint import Endpoint
    from ehkafka.headers import HeaderMode

OF_A_READ: Final = Words(
    client="ehkafka-arrow",
    logger="ehkafka.arrow",
    reader="The reader",
    unit="The range",
    knows="start names",
    allowed="on_loss='warn'",
    records="To continue without them, give on_loss='warn'; to begin elsewhere, give another start.",
    partitions="To continue without them, give on_loss='warn'.",
    logs="To read the new log from its beginning, give on_loss='warn'; to begin elsewhere, give another"
    " start.",
    slow="reader.ends is what the batches so far have covered: call read() again with start=reader.ends. If"
    " the broker is only slow, raise timeout_s.",
    broken="reader.ends is what the batches so far have covered. If the batch stays broken, begin behind"
    " it with another start.",
    unnamed="name every partition, or choose those to read by partitions.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(RangeOptions):
    """The arguments of one call of `read`."""

    endpoint: Endpoint
    topic: str
    columns: tuple[str, ...]
    header_values: HeaderMode
    words: Words = OF_A_READ

    def broker(self) -> Endpoint:
        """Return the endpoint."""
        return self.endpoint

    def named_topics(self) -> tuple[str, ...]:
        """Return the topic."""
        return (self.topic,)
