"""What Spark keeps of a stream: its positions as JSON, in one spelling.

Pure. The shape is the JVM connector's, `{"topic": {"0": 23}}`, with further entries whose names no topic can
have. Spark compares offsets as text, so the same positions must always give the same text: other key
orders would make endless empty batches. Used by the stream reader on the driver, and by programs that read a
query's progress.

`#start` is what makes a replay of the first batch exact. Spark asks `initialOffset()` anew whenever batch
0 is planned, also after a restart, and writes down only where a batch ends. So the initial offset is a
constant that names no position, and the end of batch 0 carries where it really began. `#anew` does the same
for a batch before which a topic was found to be recreated under its name: it reads from there, whatever its
start says. `#topics` are the ids by which that is noticed, and where the broker has none, `#witness` has one
record of each partition; offsets of earlier versions have neither. `#ends` is where the logs ended of
partitions that the batch's limit has cut: PySpark before 4.2 reports only the end of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - dataclasses resolve it when asked
from dataclasses import dataclass, field
from typing import Any, Self

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.offset_text import Positions, Witnesses, by_topic, packed, positions_of, witnesses_of

_START = "#start"
_GROUP = "#group"
_TOPICS = "#topics"
_ANEW = "#anew"
_WITNESS = "#witness"
_ENDS = "#ends"
_UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Positions of a stream; `start` where its first batch began; `group` whose commits it began from.

    `topic_ids` are the broker's names of the topics that the positions belong to, where it has named them.
    `anew` is where the batch that ends here began to read topics that were recreated. `witnesses` are records
    below the positions, as (offset, timestamp in ms), of topics without ids; see `offset_text.is_sayable`.
    `ends` are where logs ended that have more: two offsets that differ in these alone are equal.
    """

    positions: Positions = field(default_factory=dict)
    start: Positions | None = None
    group: str | None = None
    is_unresolved: bool = False
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    anew: Positions = field(default_factory=dict)
    witnesses: Witnesses = field(default_factory=dict)
    ends: Positions = field(default_factory=dict, compare=False)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` wrote. Raises `ConfigurationError` for anything else."""
        try:
            return cls._read(value)
        except (AttributeError, TypeError, ValueError):
            raise _no_offset(value) from None

    @classmethod
    def _read(cls, value: Any) -> Self:
        start, group = value.get(_START), value.get(_GROUP)
        is_unresolved = start == _UNRESOLVED
        if not (group is None or isinstance(group, str)):
            raise TypeError(_GROUP)
        return cls(
            positions=positions_of({name: of for name, of in value.items() if not name.startswith("#")}),
            start=None if start is None or is_unresolved else positions_of(start),
            group=group,
            is_unresolved=is_unresolved,
            topic_ids={topic: bytes.fromhex(text) for topic, text in value.get(_TOPICS, {}).items()},
            anew=positions_of(value.get(_ANEW, {})),
            witnesses=witnesses_of(value.get(_WITNESS, {})),
            ends=positions_of(value.get(_ENDS, {})),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the value for Spark; equal offsets have equal text."""
        value: dict[str, Any] = {}
        if self.group is not None:
            value[_GROUP] = self.group
        if self.is_unresolved:
            value[_START] = _UNRESOLVED
        elif self.start is not None:
            value[_START] = by_topic(self.start)
        if self.topic_ids:
            value[_TOPICS] = {topic: self.topic_ids[topic].hex() for topic in sorted(self.topic_ids)}
        if self.anew:
            value[_ANEW] = by_topic(self.anew)
        if self.witnesses:
            value[_WITNESS] = packed(self.witnesses)
        if self.ends:
            value[_ENDS] = by_topic(self.ends)
        return value | by_topic(self.positions)

    @property
    def log_ends(self) -> Positions:
        """Where the logs ended when the batch was planned that ends here, as far as the offset tells."""
        return {**self.positions, **self.ends}


def encode(positions: Positions) -> str:
    """Return the text of these positions, in the one order."""
    return json.dumps(by_topic(positions))


def read(text: str) -> StreamOffset:
    """Return the offset of a text, as a checkpoint or a query's progress has it; errors as `from_json`."""
    try:
        value = json.loads(text)
    except ValueError:
        raise _no_offset(text) from None
    return StreamOffset.from_json(value)


def _no_offset(value: object) -> ConfigurationError:
    return ConfigurationError(
        f"The checkpoint holds no offset of the ehkafka source, but {value!s:.200}. The checkpoint belongs "
        f"to another source, or is damaged: give the query its own checkpointLocation."
    )
