"""A group that another program has put to the very offset where it stood: the mirror's ranges are void."""

from __future__ import annotations

import dataclasses
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


class Forgetful(Consumer):
    """A client of a service that gives back no metadata."""

    def committed(self, partitions: Any, timeout: float = -1.0) -> Any:
        """Return offsets alone."""
        answers = super().committed(partitions, timeout=timeout)
        return [KafkaPartition(one.topic, one.partition, one.offset) for one in answers]


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
    """The same start, without a commit meanwhile."""
    place.killed()
    assert place.again() == WAITING


def test_what_another_program_rewound_stays_rewound_after_another_kill(place: Place) -> None:
    """Our own commits stand at that offset again by then: the mirror must not bring the old ranges back."""
    place.killed()
    commit(place.lab, STUCK)
    recorder = place.lab.recorder()
    recorder.block()  # nothing is finished, so our commits stay at that offset
    app = place.start(recorder, workers=4)
    wait_until(lambda: recorder.started)
    wait_until(lambda: place.known().finished == ())
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(drain=False, timeout_s=0.1)
    assert place.known().next_offset == STUCK
    assert place.again() == AGAIN


def test_commits_with_nothing_to_say_keep_the_ranges_of_their_mirror(
    place: Place, metadata_room: Callable[[int], None]
) -> None:
    """Without metadata nothing tells our commits from others: the mirror is believed."""
    metadata_room(0)
    place.killed()
    assert place.known().commit_metadata == "none"
    assert place.again() == WAITING
    assert place.events.of(ProgressRestored)[-1].source == "the mirror"


def test_a_mirror_that_is_one_write_behind_is_believed_for_what_it_says(place: Place) -> None:
    """It copies an earlier commit of ours at that offset: what it knows is finished, the rest runs again."""
    place.killed()
    known = place.known()
    earlier = tuple((start, end) for start, end in known.finished if end <= RECORDS // 2)
    place.put(dataclasses.replace(known, finished=earlier))
    handled = place.again()
    assert {offset for offset in handled if offset < RECORDS // 2} == {o for o in WAITING if o < RECORDS // 2}
    assert handled > WAITING


def test_a_mirror_of_an_earlier_offset_says_nothing_of_a_later_commit(place: Place) -> None:
    """One write behind, and the commit has moved on since: only what the commit itself says is spared."""
    place.killed()
    place.put(dataclasses.replace(place.known(), next_offset=0))
    assert place.again() > WAITING
    assert "the mirror" not in {event.source for event in place.events.of(ProgressRestored)}


def test_a_service_that_returns_no_metadata_switches_the_rule_off(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own first commit is read back once, and the blob keeps the answer for later starts."""
    monkeypatch.setattr("ehkafka.endpoint.client.Consumer", Forgetful)
    place.killed()
    known = place.known()
    assert (known.commit_metadata, known.metadata_returned) == ("ours", False)
    assert place.again() == WAITING


def test_the_answer_of_the_service_is_in_the_mirror(place: Place) -> None:
    """The embedded broker gives metadata back, so the rule is on."""
    place.killed()
    known = place.known()
    assert (known.commit_metadata, known.metadata_returned) == ("ours", True)
