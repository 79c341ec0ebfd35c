"""Flow control: how much is taken, which partitions pause, when they resume."""

from __future__ import annotations

import random

import pytest

from ehkafka.intake.flow import (
    LARGEST_MEMORY_BATCHES,
    LARGEST_RECORD_GUESS_BYTES,
    FlowControl,
    FlowLimits,
    Stuck,
)
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.tally import Tally
from ehkafka.records import TopicPartition

GUESS = LARGEST_RECORD_GUESS_BYTES
P0, P1, P2, P3 = (TopicPartition("t", number) for number in range(4))


def _held(records: int, size: int, parked_records: int = 0, parked_bytes: int = 0) -> Tally:
    return Tally(
        backlog_records=records,
        backlog_bytes=size,
        parked_records=parked_records,
        parked_bytes=parked_bytes,
    )


def _epoch(partition: TopicPartition, *held: int) -> Epoch:
    epoch = Epoch(partition, 1, {})
    epoch.tally = _held(*held)
    return epoch


def _epochs(*records: int, size: int = 0) -> list[Epoch]:
    return [_epoch(TopicPartition("t", number), count, size) for number, count in enumerate(records)]


def _parked(partition: TopicPartition, records: int, size: int = 0) -> Epoch:
    return _epoch(partition, 0, 0, records, size)


def _stuck(*records: int) -> list[Stuck]:
    """All that each partition holds is stuck."""
    return [Stuck(epoch, epoch.tally.backlog_records) for epoch in _epochs(*records)]


def _flow(records: int = 1_000, size: int = 1_000_000_000, batch: int = 100, *, seen: int = 0) -> FlowControl:
    """Return one of these limits; `seen` is the largest record of late, if there was one."""
    flow = FlowControl(FlowLimits(records, size, batch, parked_records_max=500))
    if seen:
        flow.note_batch(GUESS)
        for _ in range(LARGEST_MEMORY_BATCHES):
            flow.note_batch(seen)
    return flow


@pytest.mark.parametrize(
    ("flow", "amounts", "room"),
    [
        (_flow(), _held(0, 0), 100),
        (_flow(), _held(950, 0), 50),
        (_flow(), _held(1_000, 0), 0),
        (_flow(), _held(1_200, 0), 0),
        (_flow(size=100_000, seen=1_000), _held(1, 0), 100),
        (_flow(size=100_000, seen=1_000), _held(1, 90_500), 9),
        (_flow(size=100_000, seen=1_000), _held(1, 99_500), 0),
        # Before a record was seen its size is guessed high; one that is larger than the limit comes alone.
        (_flow(size=10 * GUESS), _held(1, 0), 10),
        (_flow(size=100), _held(0, 0), 1),
        (_flow(size=100), _held(1, 10), 0),
        # What is parked beyond its budget is taken from the backlog's room; one key on hold stops no other.
        (_flow(seen=10), _held(0, 0, 500), 100),
        (_flow(seen=10), _held(0, 0, 1_450), 50),
        (_flow(seen=10), _held(10, 0, 1_490), 0),
        (_flow(size=500_000), _held(0, 0, 1, 100), 1),
        (_flow(size=500_000), _held(1, 10, 1, 100), 0),
        (_flow(size=500_000), _held(0, 0, 1, 128 * 1024 * 1024 + 1), 0),
    ],
)
def test_no_more_is_taken_than_the_limits_leave(flow: FlowControl, amounts: Tally, room: int) -> None:
    """In records and in bytes, as if each record were as large as the largest of late."""
    assert flow.room(amounts) == room


def test_a_larger_record_counts_at_once_a_smaller_one_later() -> None:
    """The estimate rises with the first large record and falls only after many batches without."""
    flow = _flow(size=10_000_000, seen=100_000)
    found = []
    for largest in (100_000, 1_000_000, 100_000):
        flow.note_batch(largest)
        found.append(flow.room(_held(1, 0)))
    assert found == [100, 10, 10]


def test_the_backlog_never_passes_its_limits_whatever_comes() -> None:
    """With sizes below the guess, random batches and outcomes keep both bounds."""
    rng = random.Random(4)
    flow = _flow(records=500, size=8 * GUESS, batch=50)
    backlog: list[int] = []
    for _ in range(2_000):
        batch = [rng.randint(1, 2_000) for _ in range(flow.room(_held(len(backlog), sum(backlog))))]
        backlog += batch
        flow.note_batch(max(batch, default=0))
        assert len(backlog) <= 500
        assert sum(backlog) <= 8 * GUESS
        del backlog[: rng.randint(0, 60)]


def test_a_batch_is_a_part_of_what_is_free_but_one_record_at_least() -> None:
    """A block of one partition must not fill the backlog before it is seen to be stuck; bytes count too."""
    flow = _flow(batch=1_000, size=10_000 * GUESS)
    assert [flow.batch_size(_held(held, 0)) for held in (0, 600, 999, 1_000)] == [250, 100, 1, 0]
    # Not one by one where there are many.
    assert [flow.batch_size(_held(600, 0), partitions) for partitions in (8, 1_000)] == [50, 50]
    assert flow.batch_size(_held(960, 0), 1_000) == 10
    flow = _flow(records=100_000, size=128 * GUESS, batch=1_000)
    assert [flow.batch_size(_held(1, size * GUESS)) for size in (0, 127)] == [32, 1]


def test_the_backlog_is_half_full_by_records_or_by_bytes() -> None:
    """What is parked beyond its budget counts."""
    flow = _flow(size=1_000)
    half = [_held(500, 0), _held(0, 500), _held(100, 0, parked_records=900)]
    assert [flow.is_half_full(amounts) for amounts in (_held(499, 499), *half)] == [False, True, True, True]


def test_what_is_stuck_with_more_than_its_part_of_the_free_half_is_paused() -> None:
    """Half of the part, that is: before it is known to be stuck it may take as much again. Once each."""
    flow = _flow()
    assert flow.to_pause(_stuck(500, 62, 62, 0), _held(500, 0), 0.0) == [P0]
    # Three go on now, so each may hold a sixth of what is free.
    assert flow.to_pause(_stuck(500, 84, 83, 0), _held(500, 0), 0.0) == [P1]
    assert flow.to_pause(_stuck(500, 84, 83, 0), _held(500, 0), 0.0) == []
    assert flow.paused == {P0, P1}
    # Few large records weigh as much as many small ones.
    large, small = _epochs(2, 0, size=500)
    assert _flow(size=1_000).to_pause([Stuck(large, 1), Stuck(small, 0)], _held(2, 500), 0.0) == [P0]


def test_what_is_not_stuck_is_not_paused() -> None:
    """Records that end within a second are no reason, however many they are."""
    assert _flow().to_pause([Stuck(epoch, 0) for epoch in _epochs(450, 50)], _held(500, 0), 0.0) == []


def test_nothing_is_paused_where_no_partition_gains() -> None:
    """All are stuck: a pause would only throw away what was fetched. Nothing is taken, either."""
    flow = _flow()
    assert flow.to_pause(_stuck(400, 400), _held(800, 0), 0.0) is None
    assert flow.to_pause([], _held(800, 0), 0.0) is None
    assert not flow.paused


def test_whose_log_has_ended_gains_nothing() -> None:
    """It needs no part of what is free, either; where its log may go on, it is made room for."""
    flow = _flow()
    stuck = _stuck(500, 10, 0)
    assert flow.to_pause(stuck[:2], _held(510, 0), 0.0, lambda one: one != P1) is None
    # Two share 490 free records: half a part of each is 122.
    assert flow.to_pause(_stuck(122, 0, 0), _held(510, 0), 0.0, lambda one: one != P1) == []
    assert flow.to_pause(_stuck(500, 10), _held(510, 0), 0.0) == [P0]


def test_who_holds_work_for_some_seconds_gains_nothing() -> None:
    """For many seconds it is a slow key's, and the partition's other keys may have nothing."""
    flow = _flow()
    first, second = _epochs(500, 80)
    assert flow.to_pause([Stuck(first, 500), Stuck(second, 69)], _held(580, 0), 0.0) is None
    assert flow.to_pause([Stuck(first, 500), Stuck(second, 70)], _held(580, 0), 0.0) == [P0]


def test_a_paused_partition_goes_on_once_a_quarter_of_what_it_held_is_left() -> None:
    """In records and in bytes. Each resume fills the client's queue anew; the next pause throws it away."""
    flow = _flow(records=3_200)
    flow.to_pause(_stuck(640, 640, 640, 0), _held(1_920, 0), 0.0)
    assert flow.paused == {P0, P1, P2}
    assert flow.to_resume(_epochs(160, 161, 640, 0), _held(961, 0), 0.5) == [P0]
    assert flow.paused == {P1, P2}
    flow = _flow(size=1_600, seen=1)
    held, other = _epochs(16, 0, size=800)
    flow.to_pause([Stuck(held, 16), Stuck(other, 0)], _held(16, 800), 0.0)
    for size, going in ((201, []), (200, [P0])):
        assert flow.to_resume([_epoch(P0, 4, size), other], _held(4, size), 0.5) == going


def test_a_stuck_partition_that_holds_little_is_tried_again_after_a_wait_that_doubles() -> None:
    """Other keys of it may run; if it comes back as stuck, it is tried less and less often."""
    flow, waits, now_s = _flow(), [], 0.0
    for _ in range(8):
        # Paused while little was free, and most of that is free again.
        assert flow.to_pause(_stuck(30, 0), _held(960, 0), now_s) == [P0]
        paused_s = now_s
        while not flow.to_resume(_epochs(30, 0), _held(30, 0), now_s):
            now_s += 0.5
        waits.append(now_s - paused_s)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    flow.to_pause(_stuck(30, 0), _held(960, 0), now_s)
    assert flow.to_resume(_epochs(1, 0), _held(1, 0), now_s) == [P0]  # it has moved
    flow.to_pause(_stuck(30, 0), _held(960, 0), now_s)
    assert flow.to_resume(_epochs(30, 0), _held(30, 0), now_s + 1.0) == [P0]
    # One that holds its share has had its budget, and a try costs all that the client has fetched.
    flow = _flow()
    flow.to_pause(_stuck(126, 0), _held(900, 0), 0.0)
    assert flow.to_resume(_epochs(126, 0), _held(126, 0), 1_000.0) == []


def test_a_full_backlog_ends_for_those_that_moved_though_one_holds_more_than_half_for_ever() -> None:
    """All were paused; each goes on once it has worked off what it had, and a part of the whole is free."""
    flow = _flow(seen=1)
    assert flow.to_pause_all(_epochs(700, 150, 150, 0), 0.0) == [P0, P1, P2, P3]
    steps: list[tuple[list[Epoch], list[TopicPartition]]] = [
        (_epochs(700, 150, 150, 0), []),
        (_epochs(700, 120, 120, 0), []),  # a sixteenth is not free yet
        (_epochs(700, 37, 120, 0), [P1, P3]),
        (_epochs(700, 37, 37, 0), [P2]),
        (_epochs(427, 37, 37, 0), []),
        (_epochs(426, 37, 37, 0), [P0]),
    ]
    for epochs, going in steps:
        assert flow.to_resume(epochs, Tally.of(epoch.tally for epoch in epochs), 0.5) == going
    flow = _flow(size=1_000, seen=1)
    flow.to_pause_all(_epochs(8, size=1_000), 0.0)
    for records, size in ((2, 999), (2, 501)):
        assert flow.to_resume(_epochs(records, size=size), _held(records, size), 0.5) == []
    assert flow.to_resume(_epochs(2, size=250), _held(2, 250), 0.5) == [P0]


def test_a_full_backlog_ends_for_all_once_it_is_half_empty() -> None:
    """By records and by bytes, whatever each holds: a program may keep so much until later records come."""
    flow = _flow()
    flow.to_pause_all(_epochs(600, 400), 0.0)
    assert flow.to_resume(_epochs(351, 150), _held(501, 0), 0.5) == []
    assert flow.to_resume(_epochs(350, 150), _held(500, 0), 0.5) == [P0, P1]
    flow = _flow(size=1_000, seen=1)
    flow.to_pause_all(_epochs(8, size=1_000), 0.0)
    assert flow.to_resume(_epochs(3, size=501), _held(3, 501), 0.5) == []
    assert flow.to_resume(_epochs(3, size=500), _held(3, 500), 0.5) == [P0]


def test_a_revoked_partition_comes_back_unpaused() -> None:
    """The pause goes with the assignment, and the new one may be paused anew."""
    flow = _flow()
    flow.to_pause(_stuck(500, 0), _held(500, 0), 0.0)
    flow.forget(P0)
    assert flow.paused == set()
    flow.forget(P3)
    assert flow.to_pause(_stuck(500, 0), _held(500, 0), 0.0) == [P0]


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_that_drains_is_never_paused_for_ever(seed: int) -> None:
    """Whatever was paused in whatever order, once everything is done nothing is paused."""
    rng = random.Random(seed)
    flow, held = _flow(batch=50), [0] * 4
    for turn in range(500):
        room = flow.room(_held(sum(held), 0))
        if room == 0:
            flow.to_pause_all(_epochs(*held), turn)
        going = [number for number in range(4) if TopicPartition("t", number) not in flow.paused]
        for number in going[: rng.randint(0, 4)]:
            taken = rng.randint(0, room)
            room -= taken
            held[number] += taken
        amounts = _held(sum(held), 0)
        if flow.is_half_full(amounts):
            stuck = [Stuck(epoch, rng.randint(0, epoch.tally.backlog_records)) for epoch in _epochs(*held)]
            flow.to_pause(stuck, amounts, turn)
        held = [records - rng.randint(0, min(records, 40)) for records in held]
        flow.to_resume(_epochs(*held), _held(sum(held), 0), turn)
        assert sum(held) <= 1_000
    flow.to_resume(_epochs(0, 0, 0, 0), _held(0, 0), 500.0)
    assert flow.paused == set()


def test_only_the_partition_that_filled_its_parked_share_is_paused_until_half_of_it() -> None:
    """The parked budget has shares like the backlog; a share is full by its bytes, too."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=400))
    calm = _parked(P1, 199)
    assert flow.to_pause_parked([_parked(P0, 200), calm], 2) == [P0]
    assert flow.to_pause_parked([_parked(P0, 200), calm], 2) == []
    assert flow.to_resume([_parked(P0, 101), calm], _held(0, 0, 300, 0), 0.0) == []
    assert flow.to_resume([_parked(P0, 100), calm], _held(0, 0, 299, 0), 0.0) == [P0]
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_bytes_max=1_000))
    assert flow.to_pause_parked([_parked(P0, 1, 1_000)], 1) == [P0]


def test_an_attempt_at_a_parked_head_does_not_resume_its_partition() -> None:
    """While the head is tried again its lane is backlog, and the partition stays paused."""
    flow = FlowControl(FlowLimits(10_000, consume_records_max=10, parked_records_max=200))
    assert flow.to_pause_parked([_parked(P0, 200, 200)], 1) == [P0]
    assert flow.to_resume(_epochs(200, size=200), _held(200, 200), 0.0) == []
    assert flow.to_resume(_epochs(100, size=100), _held(100, 100), 0.0) == [P0]


def test_what_is_paused_by_hand_goes_on_by_hand_or_in_its_next_epoch() -> None:
    """Flow control resumes what it has paused itself."""
    flow = _flow()
    flow.pause_by_hand([P0])
    assert flow.to_resume(_epochs(0), _held(0, 0), 0.0) == []
    flow.forget(P0)
    assert not flow.by_hand
