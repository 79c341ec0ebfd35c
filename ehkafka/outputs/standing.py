"""Finds partitions that have acknowledged nothing for some seconds while messages wait for them. Pure.

It reads librdkafka's statistics of the producer's topics (see "Statistics" in its documentation). Such a
partition has no leader, or its leader is away or refuses again and again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ehkafka.records import TopicPartition
from ehkafka.wording import counted, seconds

STANDS_S = 5.0
"""A partition that acknowledges nothing for this time is a problem."""
_NONE = -1


class _Progress(NamedTuple):
    """A partition: its last acknowledged message, how many were sent by then, since when others wait.

    If the client does not number its messages, `last` is the last one sent.
    """

    last: int
    sent: int
    since_s: float = math.inf


class StalledPartitions:
    """Reads one client's statistics."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Progress] = {}
        # How many brokers lead the partitions that the client knows; one at least.
        self.leaders = 1
        # What is wrong, in words. Replaced, never changed; read by any thread.
        self.problem: str | None = None

    def take(self, statistics: dict[str, Any], now_s: float) -> None:
        """Take librdkafka's statistics."""
        are_numbered = "eos" in statistics
        partitions: dict[TopicPartition, _Progress] = {}
        leaders: set[int] = set()
        for name, topic in statistics.get("topics", {}).items():
            for partition in topic["partitions"].values():
                if partition["partition"] != _NONE:  # otherwise messages without a partition yet
                    leaders.add(partition["leader"])
                    place = TopicPartition(name, partition["partition"])
                    before = self._partitions.get(place)
                    partitions[place] = self._progress(partition, before, now_s, are_numbered=are_numbered)
        self._partitions = partitions
        self.leaders = max(1, len(leaders - {_NONE}))
        since = {place: progress.since_s for place, progress in partitions.items()}
        standing = [(at_s, place) for place, at_s in since.items() if now_s - at_s >= STANDS_S]
        self.problem = self._words(sorted(standing), now_s) if standing else None

    @staticmethod
    def _progress(
        partition: dict[str, Any], before: _Progress | None, now_s: float, *, are_numbered: bool
    ) -> _Progress:
        sent = partition["txmsgs"]
        last = partition["acked_msgid"] if are_numbered else sent
        if before is None or before.last != last:
            before = _Progress(last, sent)
        waits = partition["msgq_cnt"] + partition["xmit_msgq_cnt"] > 0
        if are_numbered:
            # Messages in flight, or waiting for another try, are in none of the queues. `msgs` does not count
            # messages of batches (librdkafka 2.16), but each try of them counts as sent.
            waits |= partition["msgs"] > last or sent > before.sent
        return before._replace(since_s=min(before.since_s, now_s) if waits else math.inf)

    @staticmethod
    def _words(standing: list[tuple[float, TopicPartition]], now_s: float) -> str:
        (since_s, first), *more = standing
        others = f" (and {counted(len(more), 'more partition')})" if more else ""
        return f"the leader of {first}{others} has acknowledged nothing for {seconds(now_s - since_s)}"
