"""Partitions that stand: messages wait for them, and for some time none was acknowledged. Pure.

As librdkafka's statistics have it (see "Statistics" in its documentation), of the producer's own topics: a
partition without a leader, one whose leader is away, one whose leader refuses for now again and again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ehkafka.records import TopicPartition
from ehkafka.wording import counted, seconds

STANDS_S = 5.0
"""So long nothing may be acknowledged before that is a problem."""
_NONE = -1


class _Progress(NamedTuple):
    """Of one partition: the last message acknowledged, how many were sent by then, and since when more waits.

    Of a client that numbers no messages the last one sent.
    """

    last: int
    sent: int
    since_s: float = math.inf


class Standing:
    """Follows one client's statistics."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Progress] = {}
        # How many brokers lead the partitions that the client knows; one at least.
        self.leaders = 1
        # What is wrong, for messages. Replaced, never changed; read by any thread.
        self.problem: str | None = None

    def take(self, statistics: dict[str, Any], now_s: float) -> None:
        """Take librdkafka's statistics."""
        are_numbered = "eos" in statistics
        partitions: dict[TopicPartition, _Progress] = {}
        leaders: set[int] = set()
        for name, topic in statistics.get("topics", {}).items():
            for partition in topic["partitions"].values():
                if partition["partition"] != _NONE:  # else it is what has no partition yet
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
            # What is on its way, or waits for another try, is in none of the queues. `msgs` leaves out
            # messages that come in batches (librdkafka 2.16), but each try counts as sent.
            waits |= partition["msgs"] > last or sent > before.sent
        return before._replace(since_s=min(before.since_s, now_s) if waits else math.inf)

    @staticmethod
    def _words(standing: list[tuple[float, TopicPartition]], now_s: float) -> str:
        (since_s, first), *more = standing
        others = f" (and {counted(len(more), 'more partition')})" if more else ""
        return f"{first}{others} has acknowledged nothing for {seconds(now_s - since_s)}"
