"""Records that were to be read and are gone: the messages, and whether reading ends there. Pure.

Used before a reading and during it. The reader's option decides; either way the partition and the offsets
are named.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.errors import OffsetGapError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.records import TopicPartition


class Words(NamedTuple):
    """The words of one kind of reader: what its users call things, and what they can do.

    Each is a whole sentence, unless its comment names another form.
    """

    # The name of the clients, and of the group that a client needs without being in one.
    client: str
    # The name of the logger that gets warnings.
    logger: str
    # What reads, what it reads at a time, and what has named the partitions: the subjects of sentences.
    reader: str
    unit: str
    knows: str
    # The option, with its value, that lets reading continue without what is gone.
    allowed: str
    # What to do about records, whole partitions and whole logs that are gone.
    records: str
    partitions: str
    logs: str
    # What to do about a broker that gives nothing, and about a batch that cannot be read.
    slow: str
    broken: str
    # What to do where offsets leave out a partition; a clause.
    unnamed: str
    # What to do about a moment after the last record, and about a group without a commit.
    later: str = "Give an earlier moment."
    uncommitted: str = "Commit an offset there."


class Lost(NamedTuple):
    """What is gone, where reading continues without, and what can be done."""

    text: str
    goes_on: str
    advice: str
    words: Words

    def settle(self, *, fail: bool) -> None:
        """Raise `OffsetGapError`, or warn and continue."""
        if fail:
            raise OffsetGapError(f"{ended(self.text)} {self.advice}")
        logging.getLogger(self.words.logger).warning(
            "%s. %s (%s).", self.text, self.goes_on, self.words.allowed
        )


class Loss(NamedTuple):
    """Offsets from `options` to before `end` were to be read; the log holds `log_start` to `log_end`."""

    partition: TopicPartition
    wanted: int
    end: int
    log_start: int
    log_end: int

    @property
    def resume_at(self) -> int:
        """The next offset that can be read; the end of what was wanted where nothing of it is left."""
        return min(self.log_start, self.end) if self.wanted < self.log_start else self.end

    def lost(self, words: Words) -> Lost:
        """Name the gap."""
        wanted = f"{self.partition}: offset {self.wanted} was to be read next"
        log = f"the log holds offsets {self.log_start} to {self.log_end}"
        goes_on = f"{words.reader} continues at offset {self.log_start}"
        if self.wanted < self.log_start:
            if self.resume_at < self.log_start:
                goes_on = f"{words.unit} lacks these offsets; the log begins at offset {self.log_start}"
            gone = f"offsets {self.wanted} to {self.resume_at - 1} are gone (retention)"
            return Lost(f"{wanted}, but {log}: {gone}", goes_on, words.records, words)
        if self.wanted < self.end:
            wanted = f"{self.partition}: offsets {self.wanted} to {self.end - 1} were to be read next"
            # What becomes of the new log is for the next reading to say.
            goes_on = f"{words.unit} ends without these offsets"
        text = f"{wanted}, but {log}: the log was truncated, or its topic was recreated"
        return Lost(text, goes_on, words.records, words)


def partitions_gone(partitions: Iterable[TopicPartition], words: Words) -> Lost:
    """Name partitions that were read before and are not there any more."""
    names = ", ".join(map(str, partitions))
    text = f"{words.knows} {names}, no longer read: they were deleted, or the options leave them out"
    return Lost(text, f"{words.reader} continues without these partitions", words.partitions, words)


def logs_replaced(reasons: Iterable[str], words: Words) -> Lost:
    """Name topics that were deleted and recreated under their names; `reasons` are clauses of a sentence."""
    text = (
        f"{words.reader}'s positions belong to another log: {', '.join(reasons)}. The topic was deleted and"
        " recreated under its name, and reading from these positions could skip records"
    )
    return Lost(text, f"{words.reader} continues at the beginning of the new log", words.logs, words)
