"""Partitions that stand: messages wait for them, and for some time none was acknowledged. Pure.

As librdkafka's statistics have it (see "Statistics" in its documentation), of the producer's own topics: a
partition without a leader, one whose leader is away, one whose leader refuses for now again and again.
"""

from __future__ import annotations

from typing import Any

from ehkafka.records import TopicPartition
from ehkafka.wording import counted, seconds

STANDS_S = 5.0
"""So long nothing may be acknowledged before that is a problem."""
_NONE = -1


class Standing:
    """Follows one client's statistics."""

    def __init__(self) -> None:
        # By partition for which messages wait: the last one acknowledged, and since when that is so.
        self._since: dict[TopicPartition, tuple[int, float]] = {}
        # What is wrong, for messages. Replaced, never changed; read by any thread.
        self.problem: str | None = None

    def take(self, statistics: dict[str, Any], now_s: float) -> None:
        """Take librdkafka's statistics."""
        since: dict[TopicPartition, tuple[int, float]] = {}
        for name, topic in statistics.get("topics", {}).items():
            for partition in topic["partitions"].values():
                acknowledged = partition["acked_msgid"]
                # What waits for another try is in none of the queues that are reported.
                if partition["partition"] == _NONE or partition["msgs"] <= acknowledged:
                    continue  # without a number: what has no partition yet
                place = TopicPartition(name, partition["partition"])
                before = self._since.get(place)
                is_same = before is not None and before[0] == acknowledged
                since[place] = before if before is not None and is_same else (acknowledged, now_s)
        self._since = since
        standing = [(at_s, place) for place, (_, at_s) in since.items() if now_s - at_s >= STANDS_S]
        self.problem = self._words(sorted(standing), now_s) if standing else None

    @staticmethod
    def _words(standing: list[tuple[float, TopicPartition]], now_s: float) -> str:
        (since_s, first), *more = standing
        others = f" (and {counted(len(more), 'more partition')})" if more else ""
        return f"{first}{others} has acknowledged nothing for {seconds(now_s - since_s)}"
