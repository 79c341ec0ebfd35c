"""Records that were to be read and are gone: what is said, and whether it ends the query. Pure.

Used on the driver before a batch and in tasks while they read. `failOnDataLoss` decides; either way the
partition and the offsets are named.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import OffsetGapError
from ehkafka.positions.same_log import id_text
from ehkafka.wording import counted, ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.records import TopicPartition

_LOG = logging.getLogger("ehkafka.spark")


class GapAdvice(NamedTuple):
    """What can be done about records, whole partitions and whole logs that are gone."""

    records: str
    partitions: str
    logs: str


OF_A_QUERY = GapAdvice(
    "To continue without them, set failOnDataLoss=false; to begin elsewhere, give the query a new"
    " checkpointLocation and startingOffsets.",
    "To continue without, set failOnDataLoss=false.",
    "To read the new log from its beginning, set failOnDataLoss=false; to begin elsewhere, give the query a"
    " new checkpointLocation and startingOffsets.",
)


class Lost(NamedTuple):
    """What is gone, where the query continues without, and which advice belongs to it."""

    text: str
    goes_on: str
    advice: str

    def settle(self, *, fail: bool, advice: GapAdvice = OF_A_QUERY) -> None:
        """Raise `OffsetGapError`, or warn and go on, as `failOnDataLoss` says."""
        if fail:
            raise OffsetGapError(f"{ended(self.text)} {getattr(advice, self.advice)}")
        _LOG.warning("%s. %s (failOnDataLoss=false).", self.text, self.goes_on)


class Loss(NamedTuple):
    """Offsets from `wanted` to before `end` were to be read; the log holds `log_start` to `log_end`."""

    partition: TopicPartition
    wanted: int
    end: int
    log_start: int
    log_end: int

    @property
    def resume_at(self) -> int:
        """The next offset that can be read; the end of what was wanted where nothing of it is left."""
        return min(self.log_start, self.end) if self.wanted < self.log_start else self.end

    @property
    def lost(self) -> Lost:
        """Name the gap."""
        wanted = f"{self.partition}: offset {self.wanted} was to be read next"
        log = f"the log holds {self.log_start} to {self.log_end}"
        goes_on = f"The query continues at offset {self.log_start}"
        if self.wanted < self.log_start:
            if self.resume_at < self.log_start:
                goes_on = f"This batch ends without them; a stream's next one begins at {self.log_start}"
            gone = f"offsets {self.wanted} to {self.resume_at - 1} are gone (retention)"
            return Lost(f"{wanted}, but {log}: {gone}", goes_on, "records")
        up_to = f", up to {self.end - 1}" if self.wanted < self.end else ""
        if up_to:
            # Of a task: what becomes of the new log is for the next batch to say.
            goes_on = "This batch ends without them"
        text = f"{wanted}{up_to}, but {log}: it was cut, or its topic was recreated"
        return Lost(text, goes_on, "records")


def partitions_gone(partitions: Iterable[TopicPartition]) -> Lost:
    """Name partitions that a checkpoint knows and the cluster has no more."""
    names = ", ".join(map(str, partitions))
    text = f"The checkpoint knows {names}, which the query no longer reads: deleted, or left out"
    return Lost(text, "The query continues without", "partitions")


def logs_replaced(reasons: Iterable[str]) -> Lost:
    """Name topics that were deleted and recreated under their names; `reasons` are clauses of a sentence."""
    text = (
        f"The query's positions belong to another log: {', '.join(reasons)}. It was deleted and recreated"
        " under its name, and to continue by number could skip records"
    )
    return Lost(text, "The query reads the new log from its beginning", "logs")


def id_replaced(topic: str, was: bytes, now: bytes) -> str:
    """Return what tells by its id that a topic was recreated."""
    return f"topic {topic!r} had the id {id_text(was)} and has {id_text(now)} now"


def records_replaced(topic: str, reasons: Mapping[TopicPartition, str]) -> str:
    """Return what tells by records that a topic was recreated: `reasons` by partition, the first one said."""
    first = min(reasons)
    more = f", and so in {counted(len(reasons) - 1, 'more partition')}" if len(reasons) > 1 else ""
    return f"topic {topic!r} holds other records (in {first}: {reasons[first]}{more})"
