"""Partitions that stand: messages wait for them, and they have no leader, or their leader is away. Pure.

As librdkafka's statistics say it (see "Statistics" in its documentation), of the producer's own topics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ehkafka.records import TopicPartition
from ehkafka.wording import counted

_NONE = -1


class Standing(NamedTuple):
    """What one report of statistics says."""

    partitions: tuple[TopicPartition, ...] = ()

    @classmethod
    def read(cls, statistics: dict[str, Any]) -> Standing:
        """Return what librdkafka's statistics say."""
        up = {
            broker["nodeid"] for broker in statistics.get("brokers", {}).values() if broker["state"] == "UP"
        }
        standing: list[TopicPartition] = []
        for name, topic in statistics.get("topics", {}).items():
            for partition in topic["partitions"].values():
                if partition["partition"] == _NONE:
                    continue  # what has no partition yet
                waiting = partition["msgq_cnt"] + partition["xmit_msgq_cnt"] + partition["msgs_inflight"]
                if waiting and partition["leader"] not in up:
                    standing.append(TopicPartition(name, partition["partition"]))
        return cls(tuple(sorted(standing)))

    @property
    def problem(self) -> str | None:
        """Which partitions stand, for messages; None: none."""
        if not self.partitions:
            return None
        first = self.partitions[0]
        others = (
            f" (and {counted(len(self.partitions) - 1, 'more partition')})" if self.partitions[1:] else ""
        )
        return f"{first}{others} has no leader, or its leader does not answer"


NOTHING_STANDS = Standing()
