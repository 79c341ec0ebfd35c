"""Order per key: the smallest history that violates it in each way, and one that just does not."""

from __future__ import annotations

from ehkafka.records import TopicPartition
from tests.kit.checker.checker import Checker
from tests.kit.checker.verdict import Measure
from tests.kit.story import PARTITION as P0
from tests.kit.story import Story

P1 = TopicPartition("readings", 1)


def begun(*offsets: int) -> Story:
    """Return a story in which process 1 owns the partition and received these records."""
    return Story().assigned().received(*offsets)


def test_two_records_of_one_key_that_overlap_violate_the_order() -> None:
    """The second starts before the first has ended."""
    verdict = begun(0, 1).start(0, b"a").start(1, b"a").finish(0, b"a").finish(1, b"a").verdict()
    assert verdict.violations == {"order_violations": 1}
    assert verdict.examples[Measure.ORDER] == (
        "readings[0]@1 key b'a' (epoch 1, pid 1) started while offset 0 of its key was running",
    )


def test_one_key_in_two_partitions_is_two_keys() -> None:
    """By default a key belongs to its partition; with a handler's scope it does not."""
    story = Story().assigned().assigned(on=P1).received(0).received(0, on=P1)
    story.start(0).start(0, on=P1).finish(0).finish(0, on=P1)
    assert story.verdict().ok
    shared = story.verdict(lane_scope=lambda partition: partition.topic)
    assert shared.violations == {"order_violations": 1}
    assert story.verdict(lane_scope=lambda partition: partition).ok


def test_ended_epoch_holds_no_shared_lane() -> None:
    """A revoked partition's record may outlive it; the key goes on in the other partition."""
    story = Story().assigned().assigned(on=P1).received(0).received(0, on=P1)
    story.start(0).revoked().run(0, on=P1).finish(0)
    assert story.verdict(lane_scope=lambda partition: partition.topic).ok


def test_parked_record_holds_its_shared_lane() -> None:
    """Between two attempts a key waits in every partition of the handler."""
    story = Story().assigned().assigned(on=P1).received(0).received(0, on=P1)
    story.start(0).finish(0, outcome="failed").run(0, on=P1).run(0, attempt=2)
    shared = story.verdict(lane_scope=lambda partition: partition.topic)
    assert shared.violations == {"order_violations": 1}
    assert story.verdict().ok


def test_records_without_key_are_spread() -> None:
    """Without a key there is no order, unless the app asked for one lane."""
    story = begun(0, 1).start(1, None).start(0, None).finish(0, None).finish(1, None)
    assert story.verdict().ok
    assert story.verdict(null_key_ordered=True).violations == {"order_violations": 1}


def test_swap_is_found_however_many_keys_came_between() -> None:
    """Lanes are forgotten only when nothing below them is unfinished."""
    count = 5_000
    story = begun(*range(count + 1)).run(count, "late")
    for offset in range(1, count):
        story.run(offset, offset)
    assert story.run(0, "late").verdict().violations == {"order_violations": 1}


def test_memory_follows_what_is_unfinished_not_the_keys_seen() -> None:
    """A million keys, one at a time, leave nothing behind."""
    checker = Checker()
    process = checker.process("r", 1)
    process.assigned(P0, 1, "0")
    for offset in range(20_000):
        process.received(P0, 1, [offset])
        process.started(P0, 1, offset, f"key-{offset}", 1)
        process.finished(P0, 1, offset, f"key-{offset}", 1, "finished")
    [epoch] = checker.partition(P0).live
    assert len(epoch._lanes) <= 1_025
    assert epoch.unfinished == {}
    assert len(checker.partition(P0).done.ranges()) == 1
