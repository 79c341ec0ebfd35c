"""A partition that cannot be read, step by step: paused, fetched again, released, whatever else pauses it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.broker_errors import FailedFetch, failed_fetch
from ehkafka.events import PartitionReadable, PartitionUnreadable
from ehkafka.intake.contact import Leader
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.unreadable import LASTS_S, RETRY_S, UnreadablePartitions
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock
from tests.kit.events import Events
from tests.kit.inbox_bench import InboxBench

P0 = TopicPartition("t", 0)


class Consumer:
    """Notes what is asked of it; `refuses` a seek, as librdkafka does where it fetches nothing."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.refuses = False

    def pause(self, _partitions: list[Any]) -> None:
        """Note it."""
        self.calls.append("pause")

    def resume(self, _partitions: list[Any]) -> None:
        """Note it."""
        self.calls.append("resume")

    def seek(self, place: Any) -> None:
        """Note where, or refuse."""
        if self.refuses:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.calls.append(place.offset)


class Stage:
    """One partition, received up to 10."""

    def __init__(self) -> None:
        self.clock, self.reported, self.consumer = VirtualClock(), Events(), Consumer()
        self.epoch = InboxBench().assign(0)
        self.epoch.received.next_offset = 10
        self.flow = SimpleNamespace(paused=set[TopicPartition](), has_withheld=False)
        self.anew: list[TopicPartition] = []
        self.context: Any = SimpleNamespace(
            clock=self.clock.now_s, emit=self.reported.append, flow=self.flow, owned=OwnedPartitions(),
            brokers=SimpleNamespace(contact=SimpleNamespace(is_blind=False, leaders={})),
        )  # fmt: skip
        self.context.owned[P0] = OwnedPartition(None, self.epoch)  # type: ignore[arg-type]
        self.parts = UnreadablePartitions(self.context, lambda partition, _why: self.anew.append(partition))

    def fail(self, offset: int = 10, code: int = KafkaError._BAD_MSG) -> None:
        """Report it."""
        self.parts.note(FailedFetch(P0, offset, KafkaError(code)))

    def turn(self, after_s: float = 0.0) -> list[Any]:
        """Take a turn so much later; return what it asked of the client."""
        self.clock.advance(after_s)
        self.consumer.calls.clear()
        self.parts.run(self.consumer)  # type: ignore[arg-type]
        return list(self.consumer.calls)

    @property
    def offset(self) -> int | None:
        """From where on it cannot be read."""
        unreadable = self.context.owned.unreadable
        return unreadable[P0].offset if P0 in unreadable else None


def test_it_is_paused_at_once_and_fetched_from_its_begin_again_and_again() -> None:
    """However often it is reported, that is one event, and it lasts until something behind it is received."""
    stage = Stage()
    for _ in range(3):
        stage.fail()
        assert stage.turn() == ["pause"]
        assert stage.turn(RETRY_S / 2) == []
        assert stage.turn(RETRY_S) == ["resume", 10]
        # Behind a wrong checksum librdkafka may have left the log, and then it seeks no more.
        stage.consumer.refuses = True
        stage.fail()
        stage.turn()
        stage.turn(RETRY_S)
        stage.consumer.refuses = False
    assert stage.anew == [P0] * 3
    assert len(stage.reported.of(PartitionUnreadable)) == 1
    assert stage.parts.halts(P0) is False
    stage.epoch.received.next_offset = 11
    assert stage.turn() == []
    assert (stage.offset, len(stage.reported.of(PartitionReadable))) == (None, 1)


@pytest.mark.parametrize("silent", ["withheld", "leader"])
def test_a_retry_that_is_neither_answered_nor_refused_ends_it_after_a_while(silent: str) -> None:
    """Such as where the batch was deleted; not while records are withheld, or its leader is silent."""
    stage = Stage()
    stage.fail()
    stage.turn()
    stage.flow.has_withheld = silent == "withheld"
    leaders = stage.context.brokers.contact.leaders
    leaders |= {P0: Leader("broker 1", stage.clock.now_s())} if silent == "leader" else {}
    assert stage.turn(RETRY_S) == ["resume", 10]
    for _ in range(3):
        stage.turn(LASTS_S)
        assert stage.offset == 10
    stage.flow.has_withheld = False
    leaders[P0] = Leader("broker 1", stage.clock.now_s() + RETRY_S)
    stage.turn(RETRY_S)
    assert stage.offset is None


def test_what_flow_control_has_paused_is_not_resumed_here() -> None:
    """Nor does flow control resume what is paused here."""
    stage = Stage()
    stage.fail()
    stage.turn()
    assert stage.parts.halts(P0)
    stage.flow.paused.add(P0)
    assert stage.turn(2 * RETRY_S) == []
    stage.epoch.received.next_offset = 11
    assert stage.turn() == []
    assert stage.offset is None


def test_the_places_that_librdkafka_invents_behind_a_wrong_checksum_count_for_nothing() -> None:
    """A second broken batch counts, once the first one is passed."""
    stage = Stage()
    stage.fail(10)
    stage.fail(8459202870869259873, KafkaError._NOT_IMPLEMENTED)
    stage.turn()
    assert stage.offset == 10
    stage.fail(20, KafkaError._BAD_COMPRESSION)
    stage.fail(8459202870869259873, KafkaError._NOT_IMPLEMENTED)
    stage.epoch.received.next_offset = 20
    assert stage.turn() == ["resume", "pause"]
    assert stage.offset == 20


def test_what_another_client_has_found_does_not_replace_what_this_one_has_reported() -> None:
    """Else the partition stays paused: only what is noted as paused is tried again."""
    stage = Stage()
    stage.fail()
    assert stage.turn() == ["pause"]
    stage.parts.note_silent(FailedFetch(P0, 10, KafkaError(KafkaError._BAD_MSG)))
    assert stage.parts.halts(P0)
    assert stage.turn(RETRY_S) == ["resume", 10]


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code", "found"),
    [
        ("t", 0, 10, KafkaError._BAD_MSG, True),
        ("t", 0, 10, KafkaError.UNKNOWN, True),
        ("t", 0, 10, KafkaError._PARTITION_EOF, False),
        ("t", 0, 10, KafkaError._AUTO_OFFSET_RESET, False),
        ("t", 0, 10, KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        ("t", 0, 10, KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        ("t", 0, -1001, KafkaError._TIMED_OUT, False),  # a commit's
        ("t", -1, -1001, KafkaError.UNKNOWN, False),  # a topic's
        (None, -1, -1001, KafkaError._MAX_POLL_EXCEEDED, False),  # the group's
    ],
)
def test_only_errors_of_a_partition_at_an_offset_are_of_a_fetch(
    topic: str | None, partition: int, offset: int, code: int, found: bool
) -> None:
    """What others deal with is left to them."""
    message: Any = SimpleNamespace(
        topic=lambda: topic,
        partition=lambda: partition,
        offset=lambda: offset,
        error=lambda: KafkaError(code),
    )
    assert (failed_fetch(message) is not None) == found
