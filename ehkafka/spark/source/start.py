"""Where a stream begins and where a batch ends, as values. Pure; `log` turns them into offsets.

The words and JSON shapes are the JVM connector's; `group` and a default for partitions that are not named
are ours. Read from options on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ehkafka.records import TopicPartition  # noqa: TC001 - dataclasses resolve it when asked

Word = Literal["earliest", "latest"]

EARLIEST = -2
LATEST = -1
"""What stands for the log's two ends among offsets, as in the JVM connector's JSON."""


@dataclass(frozen=True, slots=True)
class AtWord:
    """One end of the log."""

    word: Word


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, `EARLIEST` or `LATEST` included; every partition must be named."""

    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of a moment or later, in milliseconds since 1970.

    One moment for all, or one for each partition. `after_last` is what becomes of a partition whose records
    are all older: `error`, or `latest`, its end.
    """

    moment_ms: int | None = None
    by_partition: tuple[tuple[TopicPartition, int], ...] = ()
    after_last: Literal["error", "latest"] = "error"


Place: TypeAlias = AtWord | AtOffsets | AtTime


@dataclass(frozen=True, slots=True)
class AtGroup:
    """What a consumer group has committed; `otherwise` where it has not, None to refuse that."""

    group: str
    otherwise: Place | None = AtWord("earliest")


Start: TypeAlias = Place | AtGroup
