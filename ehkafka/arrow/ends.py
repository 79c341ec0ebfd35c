"""How far a topic was read, by partition, with what its logs are recognised by. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.offset_text import Witnesses, by_topic, packed, positions_of, witnesses_of
from ehkafka.records import TopicPartition

_IDS, _WITNESSES = "#topics", "#witness"


@dataclass(frozen=True, slots=True, eq=False)
class Ends(Mapping[int, int]):
    """By partition, the offset that is to be read next: a mapping that can be kept as text.

    - `topic` (required): whose partitions these are.
    - `offsets` (required): partition → offset; of the mapping itself the same.
    - `topic_id` (default `None`): the broker's id of the topic. None: it has none or did not name it.
    - `witnesses` (default `{}`): where there is no id, the last record read of a partition, as (offset,
      timestamp in ms).
    """

    topic: str
    offsets: Mapping[int, int]
    topic_id: bytes | None = None
    witnesses: Witnesses = field(default_factory=dict)

    def __getitem__(self, partition: int) -> int:
        return self.offsets[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets by topic and partition."""
        return {TopicPartition(self.topic, number): at for number, at in self.offsets.items()}

    def to_json(self) -> str:
        """Return one line for `from_json`; equal ends have equal text."""
        value: dict[str, object] = {}
        if self.topic_id is not None:
            value[_IDS] = {self.topic: self.topic_id.hex()}
        if self.witnesses:
            value[_WITNESSES] = packed(self.witnesses)
        return json.dumps(value | by_topic(self.positions))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote.

        - `text` (required): one line. Raises `ConfigurationError` for anything else.
        """
        try:
            value = json.loads(text)
            positions = positions_of({name: of for name, of in value.items() if not name.startswith("#")})
            (topic,) = {one.topic for one in positions}
            topic_id = value.get(_IDS, {}).get(topic)
            return cls(
                topic,
                {one.partition: at for one, at in positions.items()},
                None if topic_id is None else bytes.fromhex(topic_id),
                witnesses_of(value.get(_WITNESSES, {})),
            )
        except (AttributeError, LookupError, TypeError, ValueError):
            raise ConfigurationError(
                f"{text!r:.200} was not written by Ends.to_json(): give the whole text that Ends.to_json() "
                f"wrote, or begin with another start."
            ) from None
