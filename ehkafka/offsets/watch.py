"""How long a group's commits are watched before they are moved, and the looks at them meanwhile.

A client that lives commits sooner or later, if it has anything to read. How soon, only its settings say; by
default the known ones commit after

- 5 s: librdkafka, Kafka's Java client, franz-go and what is built on them (`auto.commit.interval.ms`);
- 30 s: Kafka Streams (`commit.interval.ms`);
- 60 s: Kafka Connect's sinks (`offset.flush.interval.ms`) and MirrorMaker (`offset.commit.interval.ms`).

The last two are always members of their group, so a broker that tells who is in it leaves the first alone:
a client that was given its partitions is no member. On the main thread.

A redrive joins its group and needs no watch; a run on Spark looks before each of its own commits instead.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ehkafka.wording import ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

NO_MEMBERS_S = 7.0
"""Longer than the 5 s of plain clients: where the broker has said that the group has no members."""
UNREPORTED_S = 65.0
"""Longer than the 60 s of the slowest: where nobody knows who is in the group."""
CHECK_S = 1.0


class Watch(NamedTuple):
    """For how long to watch, and why."""

    seconds: float
    reason: str

    @classmethod
    def chosen(cls, seconds: float | None, *, is_reported: bool, is_event_hubs: bool) -> Watch:
        """Return the watch that a person asked for, or the one that is long enough.

        `is_reported`: the broker said that the group has no members. What Event Hubs says of groups, nobody
        has documented, so there it does not count.
        """
        if seconds is not None:
            return cls(seconds, "as asked")
        if is_reported and not is_event_hubs:
            return cls(NO_MEMBERS_S, "a client that is no member of its group commits every 5 s by default")
        reported = "Event Hubs may not report" if is_event_hubs else "the broker does not report"
        return cls(UNREPORTED_S, f"{reported} who is in the group, and the slowest clients commit every 60 s")

    def describe(self) -> str:
        """Say it to a person, who may know better."""
        return (
            f"watching for {seconds(self.seconds)} whether somebody commits: {ended(self.reason)} "
            "--watch-for gives "
            "another time; 0, if you know that all consumers of the group have ended."
        )


def checks(check: Callable[[], T], seconds: float) -> Iterator[T]:
    """Look again and again, the last time after so long; at least once."""
    left_s = seconds
    while True:
        pause_s = min(CHECK_S, left_s)
        _pause(pause_s)
        left_s -= pause_s
        yield check()
        if left_s <= 0.0:
            return


def _pause(seconds: float) -> None:
    time.sleep(seconds)
