"""Flow control: how much is taken, which partitions pause, when they resume."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from ehkafka.intake.flow import LARGEST_MEMORY_BATCHES, LARGEST_RECORD_GUESS_BYTES, FlowControl, FlowLimits
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
    assert flow.batch_size(0, 0) == 100
    assert flow.batch_size(950, 0) == 50
    assert flow.batch_size(1_000, 0) == 0
    assert flow.batch_size(1_200, 0) == 0


def test_no_more_is_taken_than_the_byte_limit_leaves() -> None:
    """The batch is sized for records as large as the largest seen lately."""
    flow = _flow(size=100_000)
    flow.note_batch(LARGEST_RECORD_GUESS_BYTES)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(1_000)
    assert flow.batch_size(1, 0) == 100
    assert flow.batch_size(1, 90_500) == 9
    assert flow.batch_size(1, 99_500) == 0


def test_the_first_batches_expect_large_records() -> None:
    """Before any record was seen, its size is guessed high."""
    assert _flow(size=10 * LARGEST_RECORD_GUESS_BYTES).batch_size(1, 0) == 10


def test_a_record_larger_than_the_limit_gets_through_alone() -> None:
    """An empty backlog always takes one record, else nothing would ever move."""
    flow = _flow(size=100)
    assert flow.batch_size(0, 0) == 1
    assert flow.batch_size(1, 10) == 0


def test_a_larger_record_counts_at_once_a_smaller_one_later() -> None:
    """The estimate rises with the first large record and falls only after many batches without."""
    flow = _flow(size=10_000_000)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(100_000)
    assert flow.batch_size(1, 0) == 100
    flow.note_batch(1_000_000)
    assert flow.batch_size(1, 0) == 10
    flow.note_batch(100_000)
    assert flow.batch_size(1, 0) == 10


def test_the_backlog_never_passes_its_limits_whatever_comes() -> None:
    """With sizes below the guess, random batches and outcomes keep both bounds."""
    rng = random.Random(4)
    flow = _flow(records=500, size=8 * LARGEST_RECORD_GUESS_BYTES, batch=50)
    backlog: list[int] = []
    for _ in range(2_000):
        batch = [rng.randint(1, 2_000) for _ in range(flow.batch_size(len(backlog), sum(backlog)))]
        backlog += batch
        flow.note_batch(max(batch, default=0))
        assert len(backlog) <= 500
        assert sum(backlog) <= 8 * LARGEST_RECORD_GUESS_BYTES
        del backlog[: rng.randint(0, 60)]


def test_only_the_partition_over_its_share_is_paused() -> None:
    """The others go on."""
    flow = _flow(records=1_000, batch=10)
    loads = _loads(500, 100)
    assert flow.to_pause(loads, 2) == [TopicPartition("t", 0)]
    assert flow.paused == {TopicPartition("t", 0)}


def test_a_partition_is_over_its_share_in_bytes_too() -> None:
    """Few large records weigh as much as many small ones."""
    flow = _flow(size=1_000)
    assert flow.to_pause(_loads(1, size=500), 2) == [TopicPartition("t", 0)]


def test_a_paused_partition_is_not_paused_again() -> None:
    """A pause throws away what was fetched ahead, so it is asked for once."""
    flow = _flow(batch=10)
    assert flow.to_pause(_loads(900), 2)
    assert flow.to_pause(_loads(900), 2) == []


def test_a_share_is_at_least_two_batches_and_at_most_the_whole() -> None:
    """With many partitions, a share of one batch would pause all the time."""
    flow = _flow(records=1_000, batch=100)
    assert flow.share(2)[0] == 500
    assert flow.share(100)[0] == 200
    assert _flow(records=150, batch=100).share(10)[0] == 150
    assert flow.share(0)[0] == 1_000


def test_a_paused_partition_resumes_at_half_its_share_and_not_before() -> None:
    """The distance between the marks keeps it from pausing with every batch."""
    flow = _flow(batch=10)
    flow.to_pause(_loads(500, 0), 2)
    assert flow.to_resume(_loads(499, 0), 499, 0) == []
    assert flow.to_resume(_loads(251, 0), 251, 0) == []
    assert flow.to_resume(_loads(250, 0), 250, 0) == [TopicPartition("t", 0)]
    assert flow.paused == set()
    assert flow.to_resume(_loads(0, 0), 0, 0) == []


def test_a_paused_partition_waits_for_its_bytes_too() -> None:
    """Half the share in records is not enough while its bytes are above theirs."""
    flow = _flow(size=1_000, batch=10)
    flow.to_pause(_loads(500, size=500), 2)
    assert flow.to_resume([*_loads(1, size=251), _Load(TopicPartition("t", 1))], 1, 251) == []
    assert flow.to_resume([*_loads(1, size=250), _Load(TopicPartition("t", 1))], 1, 250) == [
        TopicPartition("t", 0)
    ]


def test_a_full_backlog_pauses_all_until_it_is_half_empty() -> None:
    """Nothing resumes while the whole is above half, then all that is below its share does."""
    flow = _flow(records=1_000, batch=10)
    flow.to_pause(_loads(600, 400), 2)
    assert flow.to_pause_all(_loads(600, 400)) == [TopicPartition("t", 1)]
    assert flow.to_resume(_loads(101, 400), 501, 0) == []
    assert flow.to_resume(_loads(100, 400), 500, 0) == [TopicPartition("t", 0)]
    assert flow.to_resume(_loads(100, 250), 350, 0) == [TopicPartition("t", 1)]
    assert not flow.full


def test_a_backlog_full_of_bytes_waits_for_half_of_them() -> None:
    """The byte limit has the same distance between its marks."""
    flow = _flow(size=1_000)
    flow.to_pause_all(_loads(5, size=1_000))
    assert flow.to_resume(_loads(5, size=400), 5, 501) == []
    assert flow.to_resume(_loads(5, size=400), 5, 500) == [TopicPartition("t", 0)]


def test_a_revoked_partition_comes_back_unpaused() -> None:
    """The pause goes with the assignment, and the new one may be paused anew."""
    flow = _flow(batch=10)
    flow.to_pause(_loads(900), 2)
    flow.forget(TopicPartition("t", 0))
    assert flow.paused == set()
    flow.forget(TopicPartition("t", 7))
    assert flow.to_pause(_loads(900), 2) == [TopicPartition("t", 0)]


def test_losing_every_partition_while_full_does_not_block_the_next_ones() -> None:
    """After the backlog went with its partitions, a new one is neither paused nor starved."""
    flow = _flow(batch=10)
    flow.to_pause_all(_loads(500, 500))
    for load in _loads(0, 0):
        flow.forget(load.partition)
    assert flow.to_resume(_loads(0), 0, 0) == []
    assert not flow.full
    assert flow.batch_size(0, 0) > 0


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_that_drains_is_never_paused_for_ever(seed: int) -> None:
    """Whatever was paused in whatever order, once everything is done nothing is paused."""
    rng = random.Random(seed)
    flow = _flow(records=1_000, batch=50)
    loads = _loads(0, 0, 0, 0)
    for _ in range(500):
        room = flow.batch_size(sum(load.backlog_records for load in loads), 0)
        if room == 0:
            flow.to_pause_all(loads)
        taken_from = [load for load in loads if load.partition not in flow.paused]
        for load in taken_from[: rng.randint(0, 4)]:
            taken = rng.randint(0, room)
            room -= taken
            load.backlog_records += taken
        flow.to_pause(loads, len(loads))
        for load in loads:
            load.backlog_records -= rng.randint(0, min(load.backlog_records, 40))
        flow.to_resume(loads, sum(load.backlog_records for load in loads), 0)
        assert sum(load.backlog_records for load in loads) <= 1_000
    for load in loads:
        load.backlog_records = 0
    flow.to_resume(loads, 0, 0)
    assert flow.paused == set()


def test_what_is_parked_beyond_its_budget_is_taken_from_the_backlogs_room() -> None:
    """Backlog and parked records together never pass the sum of their limits."""
    flow = FlowControl(FlowLimits(1_000, consume_records_max=100, parked_records_max=500))
    flow.note_batch(LARGEST_RECORD_GUESS_BYTES)
    for _ in range(LARGEST_MEMORY_BATCHES):
        flow.note_batch(10)
    assert flow.batch_size(0, 0, 500, 0) == 100
    assert flow.batch_size(0, 0, 1_450, 0) == 50
    assert flow.batch_size(10, 0, 1_490, 0) == 0


def test_only_the_partition_that_filled_its_parked_share_is_paused_until_half_of_it() -> None:
    """The parked budget has shares like the backlog."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=400))
    full, calm = _Load(TopicPartition("t", 0), parked_records=200), _Load(TopicPartition("t", 1), 0, 0, 199)
    assert flow.to_pause_parked([full, calm], 2) == [full.partition]
    assert flow.to_pause_parked([full, calm], 2) == []
    full.parked_records = 101
    assert flow.to_resume([full, calm], 0, 0, 300, 0) == []
    full.parked_records = 100
    assert flow.to_resume([full, calm], 0, 0, 299, 0) == [full.partition]


def test_an_attempt_at_a_parked_head_does_not_resume_its_partition() -> None:
    """While the head is tried again its lane is backlog, and the partition stays paused."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=200))
    load = _Load(TopicPartition("t", 0), parked_records=200, parked_bytes=200)
    assert flow.to_pause_parked([load], 1) == [load.partition]
    load.parked_records, load.parked_bytes, load.backlog_records, load.backlog_bytes = 0, 0, 200, 200
    assert flow.to_resume([load], 200, 200) == []
    load.backlog_records = load.backlog_bytes = 100
    assert flow.to_resume([load], 100, 100) == [load.partition]


def test_the_bytes_of_what_is_parked_count_too() -> None:
    """A parked share is full when either its records or its bytes are."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_bytes_max=1_000))
    load = _Load(TopicPartition("t", 0), parked_records=1, parked_bytes=1_000)
    assert flow.to_pause_parked([load], 1) == [load.partition]
