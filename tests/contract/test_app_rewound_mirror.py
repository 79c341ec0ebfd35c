"""A group that another program has put to the very offset where it stood: the mirror's ranges are void."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

import ehkafka
from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.events import ProgressIgnored, ProgressRestored
from ehkafka.progress.metadata import Unusable, decode
from tests.contract.mirrored import Mirrored, commit_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 400
# The first record is done, the second one is stuck with all records of its key, and the others are finished.
STUCK = 1
_ODDS = random.Random(7)
WAITING = {STUCK, *(offset for offset in range(2, RECORDS) if _ODDS.random() < 0.5)}
DONE = set(range(STUCK, RECORDS)) - WAITING
AGAIN = WAITING | DONE


def produce(lab: Any) -> None:
    """Write a record that gets stuck among many that do not."""
    keys = ("stuck" if offset in WAITING else f"k{offset}" for offset in range(1, RECORDS))
    lab.produce(f"a {' '.join(keys)}")


def finished(checkpoint: Checkpoint) -> set[int]:
    """Return what a checkpoint says is finished above it."""
    return {offset for start, end in checkpoint.finished for offset in range(start, end)}


def commit(lab: Any, next_offset: int, metadata: str = "") -> None:
    """Commit as another program does: the embedded broker knows no outside once a group had members."""
    quick = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "g", **quick})
    try:
        consumer.subscribe(["t"])
        wait_until(consumer.assignment, meanwhile=lambda: consumer.poll(0.05))
        at = KafkaPartition("t", 0, next_offset, metadata=metadata)
        consumer.commit(offsets=[at], asynchronous=False)
    finally:
        consumer.close()


class Place(Mirrored):
    """Apps that are killed, and those that come after them."""

    def known(self) -> Checkpoint:
        """What the mirror has."""
        return self.checkpoint() or Checkpoint(next_offset=0)

    def killed(self) -> None:
        """Let an app finish all above the stuck record, mirror that, and die."""
        produce(self.lab)
        recorder = self.lab.recorder()
        recorder.block(b"stuck")
        app = self.start(recorder, workers=4)
        wait_until(lambda: finished(self.known()) == DONE)
        with pytest.raises(ehkafka.errors.UnfinishedError):
            app.stop(drain=False, timeout_s=0.1)
        assert self.known().next_offset == STUCK
        decoded = decode(commit_of(self.lab)[1], STUCK)
        assert isinstance(decoded, Unusable) or not decoded.ranges.is_complete

    def again(self) -> set[int]:
        """Start the next one; return what it handled, each once."""
        recorder = self.lab.recorder()
        app = self.start(recorder, workers=4)
        wait_until(lambda: self.lab.committed() == RECORDS)
        app.stop()
        assert len(recorder.offsets()) == len(set(recorder.offsets()))
        return set(recorder.offsets())


@pytest.fixture
def place(lab: Any) -> Place:
    """Return an empty store."""
    lab.judged = False  # what is rewound on purpose is handled again
    return Place(lab)


@pytest.fixture(autouse=True)
def few_ranges(metadata_room: Callable[[int], None]) -> None:
    """Leave room for the facts, not for all ranges: those of the mirror would be used."""
    metadata_room(24)


@pytest.mark.parametrize("metadata", ["", "another tool's words"], ids=["empty", "a tool's"])
def test_a_rewind_to_the_very_offset_of_the_commit_is_not_undone_by_the_mirror(
    place: Place, metadata: str
) -> None:
    """A commit there without our metadata wants all from there on, whatever was finished above."""
    place.killed()
    commit(place.lab, STUCK, metadata)
    assert place.again() == AGAIN
    assert place.events.of(ProgressRestored) == []
    assert "another program" in place.events.of(ProgressIgnored)[-1].reason or metadata


def test_without_a_rewind_the_mirror_spares_what_the_commit_had_no_room_for(place: Place) -> None:
    """The same start, without a commit meanwhile; that this broker gives metadata back is in the mirror."""
    place.killed()
    assert (place.known().commit_metadata, place.known().metadata_returned) == ("ours", True)
    assert place.again() == WAITING
