"""Flow control: how much is taken, which partitions pause, when they resume."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from ehkafka.intake.flow import (
    LARGEST_MEMORY_BATCHES,
    LARGEST_RECORD_GUESS_BYTES,
    Amounts,
    FlowControl,
    FlowLimits,
    Stuck,
)
from ehkafka.records import TopicPartition


@dataclass
class _Load:
    partition: TopicPartition
    backlog_records: int = 0
    backlog_bytes: int = 0
    parked_records: int = 0
    parked_bytes: int = 0


def _loads(*records: int, size: int = 0) -> list[_Load]:
    return [_Load(TopicPartition("t", number), count, size) for number, count in enumerate(records)]


def _flow(records: int = 1_000, size: int = 1_000_000_000, batch: int = 100) -> FlowControl:
    return FlowControl(FlowLimits(records, size, batch))


def test_no_more_is_taken_than_the_record_limit_leaves() -> None:
    """A batch ends where the backlog's limit is."""
    flow = _flow()
    assert flow.room(Amounts(0, 0)) == 100
    assert flow.room(Amounts(950, 0)) == 50
    assert flow.room(Amounts(1_000, 0)) == 0
    assert flow.room(Amounts(1_200, 0)) == 0


def test_no_more_is_taken_than_the_byte_limit_leaves() -> None:
    """The batch is sized for records as large as the largest seen lately."""
    flow = _flow(size=100_000)
    flow.note_batch(LARGEST_RECORD_GUESS_BYTES)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(1_000)
    assert flow.room(Amounts(1, 0)) == 100
    assert flow.room(Amounts(1, 90_500)) == 9
    assert flow.room(Amounts(1, 99_500)) == 0


def test_the_first_batches_expect_large_records() -> None:
    """Before any record was seen, its size is guessed high."""
    assert _flow(size=10 * LARGEST_RECORD_GUESS_BYTES).room(Amounts(1, 0)) == 10


def test_a_record_larger_than_the_limit_gets_through_alone() -> None:
    """An empty backlog always takes one record, else nothing would ever move."""
    flow = _flow(size=100)
    assert flow.room(Amounts(0, 0)) == 1
    assert flow.room(Amounts(1, 10)) == 0


def test_a_larger_record_counts_at_once_a_smaller_one_later() -> None:
    """The estimate rises with the first large record and falls only after many batches without."""
    flow = _flow(size=10_000_000)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(100_000)
    assert flow.room(Amounts(1, 0)) == 100
    flow.note_batch(1_000_000)
    assert flow.room(Amounts(1, 0)) == 10
    flow.note_batch(100_000)
    assert flow.room(Amounts(1, 0)) == 10


def test_the_backlog_never_passes_its_limits_whatever_comes() -> None:
    """With sizes below the guess, random batches and outcomes keep both bounds."""
    rng = random.Random(4)
    flow = _flow(records=500, size=8 * LARGEST_RECORD_GUESS_BYTES, batch=50)
    backlog: list[int] = []
    for _ in range(2_000):
        batch = [rng.randint(1, 2_000) for _ in range(flow.room(Amounts(len(backlog), sum(backlog))))]
        backlog += batch
        flow.note_batch(max(batch, default=0))
        assert len(backlog) <= 500
        assert sum(backlog) <= 8 * LARGEST_RECORD_GUESS_BYTES
        del backlog[: rng.randint(0, 60)]


def _stuck(*records: int, size: int = 0) -> list[Stuck]:
    """All that each partition holds is stuck."""
    return [Stuck(load, load.backlog_records) for load in _loads(*records, size=size)]


def _names(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in numbers]


def test_a_batch_is_a_part_of_what_is_free_but_one_record_at_least() -> None:
    """A block of one partition must not fill the backlog before it is seen to be stuck."""
    flow = _flow(batch=1_000, size=10_000 * LARGEST_RECORD_GUESS_BYTES)
    assert flow.batch_size(Amounts(0, 0)) == 250
    assert flow.batch_size(Amounts(600, 0)) == 100
    assert flow.batch_size(Amounts(999, 0)) == 1
    assert flow.batch_size(Amounts(1_000, 0)) == 0
    assert flow.batch_size(Amounts(600, 0), 8) == 50
    assert flow.batch_size(Amounts(600, 0), 1_000) == 50  # not one by one for being many
    assert flow.batch_size(Amounts(960, 0), 1_000) == 10


def test_a_batch_is_a_part_of_the_free_bytes_too() -> None:
    """Records of 100 kB: one call must not take 100 MB."""
    flow = _flow(records=100_000, size=128 * LARGEST_RECORD_GUESS_BYTES, batch=1_000)
    assert flow.batch_size(Amounts(0, 0)) == 32
    assert flow.batch_size(Amounts(1, 127 * LARGEST_RECORD_GUESS_BYTES)) == 1


def test_the_backlog_is_half_full_by_records_or_by_bytes() -> None:
    """What is parked beyond its budget counts."""
    flow = FlowControl(FlowLimits(1_000, 1_000, 10, parked_records_max=100))
    assert not flow.is_half_full(Amounts(499, 499))
    assert flow.is_half_full(Amounts(500, 0))
    assert flow.is_half_full(Amounts(0, 500))
    assert flow.is_half_full(Amounts(100, 0, parked_records=500))


def test_what_is_stuck_with_more_than_its_part_of_the_free_half_is_paused() -> None:
    """Half of the part, that is: before it is known to be stuck it may take as much again."""
    flow = _flow()
    assert flow.to_pause(_stuck(500, 62, 62, 0), Amounts(500, 0), 0.0) == _names(0)
    assert flow.paused == {*_names(0)}
    # Three go on now, so each may hold a sixth of what is free.
    assert flow.to_pause(_stuck(500, 84, 83, 0), Amounts(500, 0), 0.0) == _names(1)


def test_nobody_is_paused_who_is_not_stuck() -> None:
    """Records that end within a second are no reason, however many they are."""
    flow = _flow()
    held = [Stuck(load, 0) for load in _loads(450, 50)]
    assert flow.to_pause(held, Amounts(500, 0), 0.0) == []


def test_nobody_is_paused_where_nobody_gains() -> None:
    """All are stuck: a pause would only throw away what was fetched. Nothing is taken, either."""
    flow = _flow()
    assert flow.to_pause(_stuck(400, 400), Amounts(800, 0), 0.0) is None
    assert flow.to_pause([], Amounts(800, 0), 0.0) is None
    assert not flow.paused


def test_whose_log_has_ended_gains_nothing() -> None:
    """It needs no part of what is free, either; where its log may go on, it is made room for."""
    flow = _flow()
    ended = TopicPartition("t", 1)
    stuck = _stuck(500, 10, 0)
    assert flow.to_pause(stuck[:2], Amounts(510, 0), 0.0, lambda one: one != ended) is None
    # Two share 490 free records: half a part of each is 122.
    stuck = _stuck(122, 0, 0)
    assert flow.to_pause(stuck, Amounts(510, 0), 0.0, lambda one: one != ended) == []
    assert flow.to_pause(_stuck(500, 10), Amounts(510, 0), 0.0) == _names(0)


def test_who_holds_work_for_some_seconds_gains_nothing() -> None:
    """For many seconds it is a slow key's, and the partition's other keys may have nothing."""
    flow = _flow()
    first, second = _loads(500, 80)
    assert flow.to_pause([Stuck(first, 500), Stuck(second, 69)], Amounts(580, 0), 0.0) is None
    assert flow.to_pause([Stuck(first, 500), Stuck(second, 70)], Amounts(580, 0), 0.0) == _names(0)


def test_a_partition_is_stuck_by_its_bytes_too() -> None:
    """Few large records weigh as much as many small ones."""
    flow = _flow(size=1_000)
    loads = [_Load(TopicPartition("t", 0), 2, 500), _Load(TopicPartition("t", 1))]
    assert flow.to_pause([Stuck(loads[0], 1), Stuck(loads[1], 0)], Amounts(2, 500), 0.0) == _names(0)


def test_a_paused_partition_is_not_paused_again() -> None:
    """A pause throws away what was fetched ahead, so it is asked for once."""
    flow = _flow()
    assert flow.to_pause(_stuck(500, 0), Amounts(500, 0), 0.0)
    assert flow.to_pause(_stuck(500, 0), Amounts(500, 0), 0.0) == []


def test_a_paused_partition_goes_on_once_a_quarter_of_what_it_held_is_left() -> None:
    """Each resume fills the client's queue anew, and the next pause throws it away."""
    flow = _flow(records=3_200)
    flow.to_pause(_stuck(640, 640, 640, 0), Amounts(1_920, 0), 0.0)
    assert flow.paused == {*_names(0, 1, 2)}
    assert flow.to_resume(_loads(160, 161, 640, 0), Amounts(961, 0), 0.5) == _names(0)
    assert flow.paused == {*_names(1, 2)}


def test_a_paused_partition_waits_for_its_bytes_too() -> None:
    """Few records are not enough while their bytes are many."""
    flow = _flow(size=1_600, batch=10)
    loads = [_Load(TopicPartition("t", 0), 16, 800), _Load(TopicPartition("t", 1))]
    flow.to_pause([Stuck(loads[0], 16), Stuck(loads[1], 0)], Amounts(16, 800), 0.0)
    loads[0].backlog_records, loads[0].backlog_bytes = 4, 201
    assert flow.to_resume(loads, Amounts(4, 201), 0.5) == []
    loads[0].backlog_bytes = 200
    assert flow.to_resume(loads, Amounts(4, 200), 0.5) == _names(0)


def test_a_stuck_partition_that_holds_little_is_tried_again_after_a_wait_that_doubles() -> None:
    """Other keys of it may run; if it comes back as stuck, it is tried less and less often."""
    flow = _flow(records=1_000)
    waits = []
    now_s = 0.0
    for _ in range(8):
        # Paused while little was free, and most of that is free again.
        assert flow.to_pause(_stuck(30, 0), Amounts(960, 0), now_s) == _names(0)
        paused_s = now_s
        while not flow.to_resume(_loads(30, 0), Amounts(30, 0), now_s):
            now_s += 0.5
        waits.append(now_s - paused_s)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    flow.to_pause(_stuck(30, 0), Amounts(960, 0), now_s)
    assert flow.to_resume(_loads(1, 0), Amounts(1, 0), now_s) == _names(0)  # it has moved
    flow.to_pause(_stuck(30, 0), Amounts(960, 0), now_s)
    assert flow.to_resume(_loads(30, 0), Amounts(30, 0), now_s + 1.0) == _names(0)


def test_a_stuck_partition_that_holds_its_share_is_not_tried_again() -> None:
    """It has had its budget, and a try costs all that the client has fetched."""
    flow = _flow(records=1_000)
    flow.to_pause(_stuck(126, 0), Amounts(900, 0), 0.0)
    assert flow.to_resume(_loads(126, 0), Amounts(126, 0), 1_000.0) == []


def test_a_full_backlog_pauses_all_until_it_is_half_empty() -> None:
    """Nothing resumes while the whole is above half."""
    flow = _flow(records=1_000, batch=10)
    assert flow.to_pause_all(_loads(500, 500)) == _names(0, 1)
    assert flow.to_resume(_loads(251, 250), Amounts(501, 0), 0.0) == []
    assert flow.to_resume(_loads(250, 250), Amounts(500, 0), 0.0) == _names(0, 1)
    assert not flow.full


def test_a_backlog_full_of_bytes_waits_for_half_of_them() -> None:
    """The byte limit has the same distance between its marks."""
    flow = _flow(size=1_000)
    flow.to_pause_all(_loads(5, size=1_000))
    assert flow.to_resume(_loads(5, size=501), Amounts(5, 501), 0.0) == []
    assert flow.to_resume(_loads(5, size=500), Amounts(5, 500), 0.0) == [TopicPartition("t", 0)]


def test_a_revoked_partition_comes_back_unpaused() -> None:
    """The pause goes with the assignment, and the new one may be paused anew."""
    flow = _flow()
    flow.to_pause(_stuck(500, 0), Amounts(500, 0), 0.0)
    flow.forget(TopicPartition("t", 0))
    assert flow.paused == set()
    flow.forget(TopicPartition("t", 7))
    assert flow.to_pause(_stuck(500, 0), Amounts(500, 0), 0.0) == _names(0)


def test_losing_every_partition_while_full_does_not_block_the_next_ones() -> None:
    """After the backlog went with its partitions, a new one is neither paused nor starved."""
    flow = _flow(batch=10)
    flow.to_pause_all(_loads(500, 500))
    for load in _loads(0, 0):
        flow.forget(load.partition)
    assert flow.to_resume(_loads(0), Amounts(0, 0), 0.0) == []
    assert not flow.full
    assert flow.room(Amounts(0, 0)) > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_that_drains_is_never_paused_for_ever(seed: int) -> None:
    """Whatever was paused in whatever order, once everything is done nothing is paused."""
    rng = random.Random(seed)
    flow = _flow(records=1_000, batch=50)
    loads = _loads(0, 0, 0, 0)
    for turn in range(500):
        amounts = Amounts(sum(load.backlog_records for load in loads), 0)
        room = flow.room(amounts)
        if room == 0:
            flow.to_pause_all(loads)
        taken_from = [load for load in loads if load.partition not in flow.paused]
        for load in taken_from[: rng.randint(0, 4)]:
            taken = rng.randint(0, room)
            room -= taken
            load.backlog_records += taken
        amounts = Amounts(sum(load.backlog_records for load in loads), 0)
        if flow.is_half_full(amounts):
            flow.to_pause(
                [Stuck(load, rng.randint(0, load.backlog_records)) for load in loads], amounts, turn
            )
        for load in loads:
            load.backlog_records -= rng.randint(0, min(load.backlog_records, 40))
        amounts = Amounts(sum(load.backlog_records for load in loads), 0)
        flow.to_resume(loads, amounts, turn)
        assert amounts.backlog_records <= 1_000
    for load in loads:
        load.backlog_records = 0
    flow.to_resume(loads, Amounts(0, 0), 500.0)
    assert flow.paused == set()


def test_what_is_parked_beyond_its_budget_is_taken_from_the_backlogs_room() -> None:
    """Backlog and parked records together never pass the sum of their limits."""
    flow = FlowControl(FlowLimits(1_000, consume_records_max=100, parked_records_max=500))
    flow.note_batch(LARGEST_RECORD_GUESS_BYTES)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(10)
    assert flow.room(Amounts(0, 0, 500, 0)) == 100
    assert flow.room(Amounts(0, 0, 1_450, 0)) == 50
    assert flow.room(Amounts(10, 0, 1_490, 0)) == 0


def test_only_the_partition_that_filled_its_parked_share_is_paused_until_half_of_it() -> None:
    """The parked budget has shares like the backlog."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=400))
    full, calm = _Load(TopicPartition("t", 0), parked_records=200), _Load(TopicPartition("t", 1), 0, 0, 199)
    assert flow.to_pause_parked([full, calm], 2) == [full.partition]
    assert flow.to_pause_parked([full, calm], 2) == []
    full.parked_records = 101
    assert flow.to_resume([full, calm], Amounts(0, 0, 300, 0), 0.0) == []
    full.parked_records = 100
    assert flow.to_resume([full, calm], Amounts(0, 0, 299, 0), 0.0) == [full.partition]


def test_an_attempt_at_a_parked_head_does_not_resume_its_partition() -> None:
    """While the head is tried again its lane is backlog, and the partition stays paused."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=200))
    load = _Load(TopicPartition("t", 0), parked_records=200, parked_bytes=200)
    assert flow.to_pause_parked([load], 1) == [load.partition]
    load.parked_records, load.parked_bytes, load.backlog_records, load.backlog_bytes = 0, 0, 200, 200
    assert flow.to_resume([load], Amounts(200, 200), 0.0) == []
    load.backlog_records = load.backlog_bytes = 100
    assert flow.to_resume([load], Amounts(100, 100), 0.0) == [load.partition]


def test_the_bytes_of_what_is_parked_count_too() -> None:
    """A parked share is full when either its records or its bytes are."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_bytes_max=1_000))
    load = _Load(TopicPartition("t", 0), parked_records=1, parked_bytes=1_000)
    assert flow.to_pause_parked([load], 1) == [load.partition]


def test_one_record_comes_although_a_key_is_held_where_the_largest_is_above_the_limit() -> None:
    """Else one key on hold would stop all others: no batch comes, so no smaller record is ever seen."""
    flow = _flow(size=500_000)  # less than the first guess
    flow.note_batch(100)
    assert flow.room(Amounts(0, 0, parked_records=1, parked_bytes=100)) == 1
    assert flow.room(Amounts(1, 10, parked_records=1, parked_bytes=100)) == 0
    beyond = flow.limits.parked_bytes_max + 1
    assert flow.room(Amounts(0, 0, parked_records=1, parked_bytes=beyond)) == 0


def test_a_full_backlog_ends_for_those_that_moved_though_one_holds_more_than_half_for_ever() -> None:
    """All were paused, then all but one worked off what they had: they get what that one leaves."""
    flow = _flow()
    loads = _loads(620, 190, 190, 0)
    assert flow.to_pause_all(loads) == _names(0, 1, 2, 3)
    assert flow.to_resume(loads, Amounts(1_000, 0), 0.0) == []
    loads[1].backlog_records, loads[2].backlog_records = 0, 189
    assert flow.to_resume(loads, Amounts(809, 0), 1.0) == _names(1, 3)
    assert not flow.full
    assert flow.to_resume(loads, Amounts(809, 0), 1.5) == []  # these two wait until they move
    loads[2].backlog_records = 0
    assert flow.to_resume(loads, Amounts(620, 0), 1.6) == _names(2)
    loads[0].backlog_records = 156
    assert flow.to_resume(loads, Amounts(156, 0), 1.7) == []
    loads[0].backlog_records = 155
    assert flow.to_resume(loads, Amounts(155, 0), 1.8) == _names(0)


def test_a_full_backlog_of_one_partition_is_half_empty_before_it_goes_on() -> None:
    """Nobody gains where it is the only one: it would wait for longer, as stuck."""
    flow = _flow()
    (load,) = loads = _loads(1_000)
    flow.to_pause_all(loads)
    load.backlog_records = 900
    assert flow.to_resume(loads, Amounts(900, 0), 1.0) == []
    load.backlog_records = 500
    assert flow.to_resume(loads, Amounts(500, 0), 1.1) == _names(0)


def test_what_is_paused_by_hand_goes_on_by_hand_or_in_its_next_epoch() -> None:
    """Flow control resumes what it has paused itself."""
    flow, partition = _flow(), TopicPartition("t", 0)
    flow.pause_by_hand([partition])
    assert flow.to_resume(_loads(0), Amounts(0, 0), 0.0) == []
    flow.forget(partition)
    assert not flow.by_hand
