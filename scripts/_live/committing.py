"""Commits, one by one, with their answers: by a consumer that never joins its group."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import TopicPartition

from _live.probe import NotTried
from ehkafka.checks.group import NOT_YET

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, ThrottleEvent

    from _live.site import Site

POLL_S = 0.002
ANSWER_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one commit."""

    took_s: float
    error: KafkaError | None

    @property
    def name(self) -> str | None:
        """The error's name."""
        return None if self.error is None else self.error.name()


class Committer:
    """Commits offsets of one partition of `topic` in `group`."""

    def __init__(self, site: Site, group: str, topic: str, partition: int = 0) -> None:
        self._site = site
        self._where = topic, partition
        self._sent_s: deque[float] = deque()
        self.answers: list[Answer] = []
        self.throttled_s: list[float] = []
        self._consumer = site.consumer(group, on_commit=self._answered, throttle_cb=self._throttled)

    def send(self, offset: int, metadata: str = "") -> None:
        """Send a commit and do not wait for its answer."""
        self._sent_s.append(time.monotonic())
        try:
            wanted = TopicPartition(*self._where, offset, metadata)
            self._consumer.commit(offsets=[wanted], asynchronous=True)
        except KafkaException as error:
            self._answered(error.args[0], [])

    @property
    def in_flight(self) -> int:
        """How many answers are missing."""
        return len(self._sent_s)

    def poll(self, wait_s: float = POLL_S) -> None:
        """Let answers in."""
        self._consumer.consume(1, wait_s)

    def is_answered(self) -> bool:
        """Let answers in, and return whether none is missing."""
        self.poll()
        return not self._sent_s

    def commit(self, offset: int, metadata: str = "") -> Answer:
        """Commit, and again as long as the coordinator is only just being found. Raises `NotTried`."""
        give_up_s = time.monotonic() + ANSWER_S
        while True:
            count = len(self.answers)
            self.send(offset, metadata)
            while len(self.answers) == count:
                if time.monotonic() > give_up_s:
                    raise NotTried(f"a commit had no answer within {ANSWER_S:.0f} s")
                self.poll()
            answer = self.answers[-1]
            if answer.error is None or answer.error.code() not in NOT_YET or time.monotonic() > give_up_s:
                return answer
            self._site.pause(0.05)

    def committed(self) -> TopicPartition:
        """Return what the group has committed. Raises `KafkaException`."""
        [found] = self._consumer.committed([TopicPartition(*self._where)], timeout=ANSWER_S)
        return found

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()

    def _answered(self, error: KafkaError | None, partitions: list[Any]) -> None:
        # Of a single partition the error may be in the partition only.
        found = error or next((one.error for one in partitions if one.error is not None), None)
        began_s = self._sent_s.popleft() if self._sent_s else time.monotonic()
        self.answers.append(Answer(time.monotonic() - began_s, found))

    def _throttled(self, event: ThrottleEvent) -> None:
        self.throttled_s.append(event.throttle_time)
