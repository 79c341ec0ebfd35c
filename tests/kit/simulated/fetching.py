"""A client that fetches ahead as librdkafka does, over one broker, in virtual time.

What back-pressure has to know of it, read in librdkafka 2.16: all partitions share one queue, in blocks; a
fetch goes out while less than so many records wait there and none is on its way, and names each partition
that is not paused; the broker fills the answer partition by partition, beginning one further each time; a
pause drops what is queued and on its way of a partition, and the next fetch begins where the program stands.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from tests.kit.simulated.message import SimulatedMessage


@dataclass(frozen=True)
class Fetching:
    """The client's settings, and its broker's distance; the defaults are those of an app."""

    queued_records_min: int = 10_000
    answer_bytes_max: int = 4_194_304
    partition_bytes_max: int = 393_216
    record_bytes: int = 220
    round_trip_s: float = 1e-3
    bytes_per_s: float = 200e6
    # Between two looks at the queue's length while it is full.
    backoff_s: float = 5e-3


class _Block(NamedTuple):
    """Records of one partition in one answer: from which offset on, and before which."""

    partition: TopicPartition
    begin: int
    end: int


class FetchingClient:
    """One consumer. `logs` has the number of records of each partition, `record` makes one."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, int],
        record: Callable[[TopicPartition, int], SimulatedMessage],
        settings: Fetching,
    ) -> None:
        self.logs = dict(logs)
        self.settings = settings
        self.received_bytes = 0
        self.pauses = 0
        self.paused: set[TopicPartition] = set()
        self._record = record
        # Where the program stands, and what is to be fetched next.
        self._positions = dict.fromkeys(logs, 0)
        self._fetch_from = dict.fromkeys(logs, 0)
        self._queue: deque[_Block] = deque()
        self._queued_records = 0
        # When the answer on its way is here, and what is in it.
        self._answer: tuple[float, list[_Block]] | None = None
        # Where logs ended when a fetch last named them.
        self.known_ends: dict[TopicPartition, int] = {}
        self._turn = 0
        self._due_s = 0.0

    def go_on(self, now_s: float) -> None:
        """Do what the client's own thread has done by now."""
        while True:
            if self._answer is not None:
                if self._answer[0] > now_s:
                    return
                self._take_answer()
            elif self._due_s > now_s:
                return
            elif not self._fetch(self._due_s):
                self._due_s += self.settings.backoff_s

    def _take_answer(self) -> None:
        assert self._answer is not None
        self._due_s, blocks = self._answer
        self._answer = None
        # Those on whose account nothing came meanwhile: a pause has let them go, and they count all the same.
        for block in blocks:
            if block.partition not in self.paused and self._fetch_from[block.partition] == block.begin:
                self._queue.append(block)
                self._queued_records += block.end - block.begin
                self._fetch_from[block.partition] = block.end

    def _fetch(self, now_s: float) -> bool:
        """Send a fetch if it is time for one and there is anything to fetch."""
        settings = self.settings
        if self._queued_records >= settings.queued_records_min:
            return False
        partitions = [one for one in self.logs if one not in self.paused]
        place = self._turn % max(1, len(partitions))
        self._turn += 1
        self.known_ends.update((partition, self.logs[partition]) for partition in partitions)
        blocks, left_bytes = [], settings.answer_bytes_max
        for partition in partitions[place:] + partitions[:place]:
            begin = self._fetch_from[partition]
            records = min(left_bytes, settings.partition_bytes_max) // settings.record_bytes
            end = min(self.logs[partition], begin + records)
            if end > begin:
                blocks.append(_Block(partition, begin, end))
                left_bytes -= (end - begin) * settings.record_bytes
        if not blocks:
            return False
        size = settings.answer_bytes_max - left_bytes
        self.received_bytes += size
        self._answer = (now_s + settings.round_trip_s + size / settings.bytes_per_s, blocks)
        return True

    @property
    def ahead_bytes(self) -> int:
        """What is queued or on its way, and will be handed out."""
        coming = self._answer[1] if self._answer is not None else []
        records = self._queued_records + sum(
            one.end - one.begin
            for one in coming
            if one.partition not in self.paused and self._fetch_from[one.partition] == one.begin
        )
        return records * self.settings.record_bytes

    def consume(self, records_max: int) -> list[SimulatedMessage]:
        """Hand out what is queued, at most so many."""
        messages: list[SimulatedMessage] = []
        while self._queue and len(messages) < records_max:
            block = self._queue.popleft()
            end = min(block.end, block.begin + records_max - len(messages))
            messages += [self._record(block.partition, offset) for offset in range(block.begin, end)]
            self._positions[block.partition] = end
            self._queued_records -= end - block.begin
            if end < block.end:
                self._queue.appendleft(block._replace(begin=end))
        return messages

    def pause(self, partitions: list[KafkaPartition]) -> None:
        """Stop fetching these, and drop what was fetched."""
        gone = {_name(one) for one in partitions}
        self.pauses += len(gone)
        self.paused |= gone
        self._queue = deque(block for block in self._queue if block.partition not in gone)
        self._queued_records = sum(block.end - block.begin for block in self._queue)
        for partition in gone:
            self._fetch_from[partition] = self._positions[partition]
        if self._answer is not None:
            ready_s, blocks = self._answer
            self._answer = ready_s, [block for block in blocks if block.partition not in gone]

    def resume(self, partitions: list[KafkaPartition]) -> None:
        """Fetch these again."""
        self.paused -= {_name(one) for one in partitions}

    def position(self, partitions: list[KafkaPartition]) -> list[Any]:
        """Return where these stand."""
        for one in partitions:
            one.offset = self._positions[_name(one)]
        return partitions

    def seek(self, partition: KafkaPartition) -> None:
        """Wake the client's thread, which needs no waking here; no position moves."""
        assert self._positions[_name(partition)] == partition.offset


def _name(partition: KafkaPartition) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition)
