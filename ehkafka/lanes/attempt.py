"""One attempt: a call of the handler for a record. What callers, failure policies and deferrals are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import Message


class Attempt:
    """A record, and the number of its call: 1 for the first."""

    __slots__ = ("asked", "entry", "number")

    def __init__(self, entry: Entry, number: int = 1, asked: int = 0) -> None:
        """`asked`: how many of the calls before it only asked for time, which uses up no attempt."""
        self.entry = entry
        self.number = number
        self.asked = asked

    @property
    def message(self) -> Message:
        """The record's message."""
        return self.entry[MESSAGE]

    @property
    def key(self) -> Hashable:
        """What orders the record; it may be of a user's type."""
        return self.entry[KEY]

    @property
    def epoch(self) -> Epoch:
        """The assignment that the record is of."""
        return self.entry[EPOCH]


class Attempts:
    """The calls of one record that have not ended it."""

    __slots__ = ("asked", "failed", "last_error", "together_max")

    def __init__(self) -> None:
        # Calls that failed; of these, how many only asked for time.
        self.failed = 0
        self.asked = 0
        self.last_error = ""
        # How many records a batch with it may have, since one has raised; None: as many as ever.
        self.together_max: int | None = None
