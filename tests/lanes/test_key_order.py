"""Order per key and concurrency between keys, on one dispatcher without threads."""

from __future__ import annotations

import random

from tests.kit.lane_bench import LaneBench

from ehkafka.lanes.decision import HoldHead, RetryHead
from ehkafka.lanes.order import by_partition
from tests.kit.simulated.message import SimulatedMessage


def _of_key(started: list[str], key: str) -> list[str]:
    return [text for text in started if text.startswith(key)]


def test_records_of_a_key_start_in_offset_order_whatever_the_workers_do() -> None:
    """With many keys and workers in random order, each key's starts follow the offsets."""
    rng = random.Random(1)
    bench = LaneBench()
    assignment = bench.assign()
    keys = [rng.choice("abcdefg") for _ in range(300)]
    bench.receive(assignment, " ".join(f"{key}{offset}" for offset, key in enumerate(keys)))
    held = bench.begin(4)
    while held:
        lane = held.pop(rng.randrange(len(held)))
        bench.finish(lane, records=rng.randint(1, 3))
        held += bench.begin()
    assert len(bench.started) == 300
    for key in "abcdefg":
        offsets = [int(text[1:]) for text in _of_key(bench.started, key)]
        assert offsets == sorted(offsets)


def test_a_retried_record_runs_again_before_its_followers() -> None:
    """A parked head comes first when its lane goes on."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    bench.fail_head(bench.begin()[0], RetryHead(1.0, "later"))
    bench.work()
    assert bench.started == ["a0"]
    bench.dispatcher.holds.unpark_due(1.0)
    bench.work()
    assert bench.started == ["a0", "a0", "a1"]


def test_a_key_has_one_holder_at_a_time() -> None:
    """While a lane is lent, no second worker gets its key, nor the record that just arrived."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    [lane] = bench.begin()
    bench.receive(assignment, "a2")
    assert bench.begin() == []
    bench.finish(lane)
    assert bench.started == ["a0", "a1", "a2"]
    assert bench.is_empty()


def test_a_record_that_arrives_after_the_last_was_finished_is_run_once_the_lane_is_handed_in() -> None:
    """A holder that is done with its lane does not strand a record queued behind it."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0")
    [lane] = bench.begin()
    assert not bench.run_head(lane)
    bench.receive(assignment, "a1")
    bench.settle(lane)
    bench.work()
    assert bench.started == ["a0", "a1"]
    assert bench.is_empty()


def test_a_blocked_key_delays_no_other() -> None:
    """Key a blocks; b to z finish, a's later ones do not start."""
    bench = LaneBench()
    assignment = bench.assign()
    bench.receive(assignment, "a0 a1")
    [blocked] = bench.begin()
    assert blocked.may_run_head()
    bench.receive(assignment, "b2 c3 a4 z5")
    bench.work()
    assert bench.started == ["b2", "c3", "z5"]
    bench.finish(blocked)
    assert bench.started[3:] == ["a0", "a1", "a4"]


def test_a_held_key_delays_no_other() -> None:
    """A failed record kept by its policy holds back its own key alone."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1 b2")
    bench.fail_head(bench.begin_key("a"), HoldHead("poison"))
    bench.work()
    assert bench.started == ["a0", "b2"]


def test_no_more_lanes_are_lent_than_there_are_keys() -> None:
    """Two keys feed two workers, however many ask, and all is done in the end."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 b1 a2 b3 a4 b5")
    lanes = bench.begin(16)
    assert [lane.key for lane in lanes] == [b"a", b"b"]
    for lane in lanes:
        bench.finish(lane)
    assert bench.is_empty()


def test_equal_keys_in_distinct_objects_share_a_lane() -> None:
    """The key's bytes count, not the object that holds them."""
    bench = LaneBench()
    messages = [SimulatedMessage("t", 0, offset, bytes(bytearray(b"long key"))) for offset in range(2)]
    assert messages[0].key() is not messages[1].key()
    bench.dispatcher.receive(bench.assign(), messages, bench.reader.keys(messages), 0.0)
    assert len(bench.begin(2)) == 1


def test_by_partition_lends_one_lane_per_partition() -> None:
    """Records of one partition are one lane, whatever their keys."""
    bench = LaneBench(order_by=by_partition)
    one, two = bench.assign(0), bench.assign(1)
    bench.receive(one, "a0 b1 c2")
    bench.receive(two, "a0 b1")
    assert len(bench.begin(9)) == 2


def test_no_more_lanes_are_lent_than_workers_ask_for() -> None:
    """A lane runs only while somebody holds it, so N workers run at most N handlers."""
    bench = LaneBench()
    bench.receive(bench.assign(), " ".join(f"{chr(97 + n % 26)}{n}" for n in range(200)))
    lanes = bench.begin(3)
    assert sum(lane.running for lane in bench.dispatcher.assignments.popitem()[1].lanes.values()) == 3
    assert len(lanes) == 3


def test_a_hundred_thousand_keys_leave_nothing_behind() -> None:
    """Per-key state is gone once a key's records are finished."""
    bench = LaneBench()
    assignment = bench.assign()
    lanes_max = 0
    for start in range(0, 100_000, 1_000):
        messages = [SimulatedMessage("t", 0, start + n, b"%d" % (start + n)) for n in range(1_000)]
        bench.dispatcher.receive(assignment, messages, bench.reader.keys(messages), 0.0)
        lanes_max = max(lanes_max, len(assignment.lanes))
        bench.work()
    assert lanes_max == 1_000
    assert bench.is_empty()
    assert assignment.finished_records == 100_000


def test_a_busy_early_lane_does_not_keep_late_ones_waiting() -> None:
    """A lane that is handed in with records left goes behind the lanes that waited."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1 a2 a3 b4 c5")
    turns = []
    while lanes := bench.begin():
        turns.append(lanes[0].key)
        bench.finish(lanes[0], records=1)
    assert turns == [b"a", b"b", b"c", b"a", b"a", b"a"]


def test_a_lane_that_fails_and_comes_back_waits_its_turn() -> None:
    """Retries of one key do not overtake lanes that were ready before."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 b1 c2")
    bench.fail_head(bench.begin()[0], RetryHead(0.0, "at once"))
    bench.dispatcher.holds.unpark_due(0.0)
    bench.work()
    assert bench.started == ["a0", "b1", "c2", "a0"]


def test_the_head_knows_how_often_it_failed() -> None:
    """Failed calls are counted per record; the next record of the key starts at none."""
    bench = LaneBench()
    bench.receive(bench.assign(), "a0 a1")
    for failed in range(3):
        [lane] = bench.begin()
        assert lane.attempts == failed
        bench.fail_head(lane, RetryHead(0.0, "again"))
        bench.dispatcher.holds.unpark_due(0.0)
    [lane] = bench.begin()
    assert lane.attempts == 3
    assert bench.run_head(lane)
    assert lane.attempts == 0
