"""Back-pressure in virtual time: what others get while partitions are stuck, and what is received twice."""

from __future__ import annotations

import pytest

from ehkafka.intake.backpressure import Backpressure
from ehkafka.intake.flow import FlowLimits
from ehkafka.intake.log_ends import AGAIN_S
from tests.kit.simulated.catching_up import FOR_EVER, CatchingUp, Handling
from tests.kit.simulated.fetching import Fetching

# A tenth of an app's limits, of its client's queue and of its answers.
LIMITS = FlowLimits(5_000, consume_records_max=1_000)
FETCHING = Fetching(queued_records_min=1_000, answer_bytes_max=419_430, partition_bytes_max=39_321)
MANY = 100_000
WORK_S = 0.03


def _catching_up(*handlings: Handling) -> CatchingUp:
    return CatchingUp(*handlings, limits=LIMITS, fetching=FETCHING)


def _beside_stuck(partitions: int, stuck: int, *, ends: int = 0) -> Handling:
    """The first of so many partitions are stuck from an offset on; twenty workers are free for the others."""
    return Handling(
        "t",
        [MANY] * partitions,
        workers=20 + stuck,
        work_s=lambda partition, offset: FOR_EVER if partition < stuck and offset >= ends else WORK_S,
        key=lambda partition, offset: b"one" if partition < stuck else b"%d" % (offset % 1_009),
    )


@pytest.mark.parametrize(("stuck", "ends"), [(10, 0), (20, 0), (30, 0), (20, 20), (30, 20)])
def test_the_others_keep_their_rate_beside_many_stuck_partitions(stuck: int, ends: int) -> None:
    """From the start on, within the backlog's limit; what is thrown away is a few answers."""
    handling = _beside_stuck(40, stuck, ends=ends)
    run = _catching_up(handling)
    run.run(2.5)
    assert handling.finished >= 0.9 * 2.5 * 20 / WORK_S
    assert run.backlog_records_max <= LIMITS.backlog_records_max
    before = run.client.received_bytes, handling.finished
    run.run(4.0)
    received, finished = run.client.received_bytes - before[0], handling.finished - before[1]
    assert finished >= 0.98 * 4.0 * 20 / WORK_S
    # An answer may have come for the time after.
    assert received <= 1.3 * finished * FETCHING.record_bytes + FETCHING.answer_bytes_max


def _busy_and_idle() -> tuple[CatchingUp, Handling, Handling]:
    busy = Handling("busy", [MANY] * 8, workers=20, work_s=lambda _partition, _offset: WORK_S)
    idle = Handling("idle", [0] * 8, workers=20, work_s=lambda _partition, _offset: WORK_S)
    return _catching_up(busy, idle), busy, idle


def test_a_handler_without_records_costs_the_other_one_nothing() -> None:
    """Neither speed nor bytes, and nothing is paused for it."""
    run, busy, _ = _busy_and_idle()
    run.run(8.0)
    assert busy.finished >= 0.97 * 8.0 * 20 / WORK_S
    assert run.client.pauses == 0
    assert run.bytes_ratio() <= 1.02


def test_mutant_a_handler_without_records_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a handler whose logs have ended: the other's records fill the backlog for it."""
    monkeypatch.setattr(Backpressure, "_has_unread", lambda _self, _partition: True)
    run, _, _ = _busy_and_idle()
    run.run(4.0)
    assert run.client.pauses > 0
    assert run.bytes_ratio() > 1.5


def _is_served_late(run: CatchingUp, idle: Handling) -> None:
    """Records come for the idle handler while the client's queue is full of the other's."""
    run.run(3.0)
    for partition in list(run.client.logs):
        if partition.topic == "idle":
            run.client.logs[partition] = 10
    run.run(AGAIN_S + 1.0)
    assert idle.finished == 80


def test_the_first_records_of_an_idle_handler_do_not_wait_behind_a_full_queue() -> None:
    """The other's workers take for ever, so its records stay in the queue, and no fetch would go out."""
    run, busy, idle = _busy_and_idle()
    busy.work_s = lambda _partition, _offset: FOR_EVER
    _is_served_late(run, idle)


def test_mutant_no_broker_is_asked_where_logs_end() -> None:
    """The idle handler's records wait for as long as the other one's do."""
    run, busy, idle = _busy_and_idle()
    run.asks = False
    busy.work_s = lambda _partition, _offset: FOR_EVER
    with pytest.raises(AssertionError):
        _is_served_late(run, idle)


def _few_keys(keys: int) -> Handling:
    """So many keys, each alone in its partition, of 16."""
    places = [(7 * number + 3) % 16 for number in range(keys)]
    return Handling(
        "t",
        [MANY if partition in places else 0 for partition in range(16)],
        workers=100,
        work_s=lambda partition, offset: (partition * 7 + offset * 13) % 11 * 0.0005,  # 2.5 ms on average
        key=lambda _partition, _offset: b"one",
    )


@pytest.mark.parametrize("keys", [1, 2, 5, 10])
def test_a_handful_of_keys_keeps_its_rate_and_is_received_once(keys: int) -> None:
    """Most workers lack work for ever, and no record more helps them."""
    handling = _few_keys(keys)
    run = CatchingUp(handling)
    run.run(12.0)
    assert handling.finished >= 0.95 * 12.0 * keys / 0.0025
    assert run.bytes_ratio() <= 1.3
    assert keys > 5 or run.client.pauses == 0


def test_mutant_who_has_nothing_unread_is_given_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions are paused for others that have no record."""
    monkeypatch.setattr(Backpressure, "_has_unread", lambda _self, _partition: True)
    run = CatchingUp(_few_keys(2))
    run.run(12.0)
    assert run.client.pauses > 0


def test_a_slow_key_of_a_partition_does_not_keep_its_others_from_work() -> None:
    """Next to a stuck partition: what its slow key holds is work for long, and no sign that it has enough."""
    handling = Handling(
        "t",
        [MANY] * 8,
        workers=20,
        work_s=lambda partition, offset: FOR_EVER if partition == 0 else 0.02 if offset % 10 == 0 else 0.01,
        key=lambda partition, offset: (
            b"one" if partition == 0 else b"slow" if offset % 10 == 0 else b"%d" % (offset % 1_009)
        ),
    )
    run = _catching_up(handling)
    run.run(12.0)
    assert handling.finished >= 0.9 * 12.0 * 19 / 0.011
