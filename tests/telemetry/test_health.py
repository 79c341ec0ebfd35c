"""Health and the snapshot as values: which reasons there are, and that JSON and pickle can say them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import fastapi
import orjson
from fastapi.testclient import TestClient

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.records import TopicPartition
from ehkafka.telemetry.health import health_of
from ehkafka.telemetry.snapshot import (
    HandlerSnapshot,
    Health,
    MemberSnapshot,
    OutlivingCall,
    PartitionSnapshot,
    Snapshot,
    Unfinished,
    Unreadable,
)
from ehkafka.workers.attempt_clock import OverdueAttempt

P0 = TopicPartition("t", 0)
PARTITION = PartitionSnapshot(P0, 1, 7, 1, 100, 0, 0, None, 1, 4, 4, 5, 4, 0, 0, False, None)
WELL = replace(
    Snapshot.empty("g", "broker:9092", "running", 1_700_000_000.0),
    partitions=(PARTITION,),
    counters={"commits": 3},
)


def health(snapshot: Snapshot, *problems: str, poll_silence_s: float = 0.0) -> Health:
    """Return its health with the default limits, and with what others found."""
    options: dict[str, Any] = {"poll_silence_s": poll_silence_s, "failure": None, "commit_problem": None}
    options["problems"] = problems
    return health_of(snapshot, stuck_s=300.0, unreachable_s=15.0, **options)


def test_no_broker_and_lost_partitions_are_reasons_that_say_since_when() -> None:
    """Both with the time on the clock; within `unreachable_s` neither is."""
    assert health(replace(WELL, broker_silence_s=14.9, lost_s=14.9)).ok
    silent = health(replace(WELL, broker_silence_s=20.0)).reasons
    assert silent[0].startswith("No broker of broker:9092 has answered since 22:13:00 UTC, for 20 s")
    (waits,) = health(WELL, poll_silence_s=16.0).reasons
    assert waits.startswith("The poll loop has not run")
    lost = health(replace(WELL, lost_s=20.0, lost_partitions=4)).reasons
    assert lost[0].startswith("4 partitions were lost, and none has come back since 22:13:00 UTC (20 s).")


def test_a_call_of_an_assignment_that_has_ended_is_named_with_its_epoch_and_age() -> None:
    """A note at first; red once it is stuck, and then the record behind it is no problem of its own."""
    call = OutlivingCall(P0, 3, 41, "k", "work", 12.0)
    found = health(replace(WELL, outliving=(call,)))
    assert found.ok
    [note] = found.notes
    assert note == (
        "t[0]@41, key k: a call of handler 'work' still runs from an earlier assignment of the partition "
        "(epoch 3), 12 s after the record was received. The next records of this key wait for the call."
    )
    behind = Unfinished(
        41, "k", 400.0, 0, "waits for …", is_stuck=True, status="waiting: earlier call", handler="work"
    )
    partition = replace(PARTITION, oldest=behind)
    stuck = replace(call, age_s=500.0, is_stuck=True)
    overdue = OverdueAttempt("work", P0, 41, "k", 1, 500.0, 1.0, "w")
    snapshot = replace(WELL, partitions=(partition,), outliving=(stuck,), overdue=(overdue,))
    [reason] = health(snapshot).reasons
    assert "(epoch 3), 500 s after" in reason
    assert reason.endswith("let the key continue: ehkafka keys skip t/0@41")
    assert health(snapshot).notes == ()


def test_a_silent_leader_is_named_with_its_partitions_and_since_when() -> None:
    """One reason for each leader; where no broker answers at all that is the reason."""
    name = "broker 2 (b2:9092)"
    fresh = replace(PARTITION, log_age_s=14.9, leader=name)
    assert health(replace(WELL, partitions=(fresh, replace(fresh, log_age_s=None)))).ok
    others = [
        replace(PARTITION, partition=TopicPartition("t", n), log_age_s=20.0, leader=name) for n in (1, 3)
    ]
    silent = replace(WELL, partitions=(fresh, *others))
    (reason,) = health(silent).reasons
    assert reason.startswith(f"t[1], t[3]: {name} has not answered since 22:13:00 UTC, for 20 s")
    assert len(health(replace(silent, broker_silence_s=20.0, is_cut_off=True)).reasons) == 1


def test_deleted_records_of_a_paused_partition_are_a_reason() -> None:
    """At once, and not when it is resumed."""
    (reason,) = health(replace(WELL, partitions=(replace(PARTITION, deleted_records=40),))).reasons
    assert reason.startswith("Retention has deleted 40 records of t[0]")


def test_lag_without_progress_is_a_reason() -> None:
    """The docstring of `stuck_s` promises it."""
    still = replace(WELL, partitions=(replace(PARTITION, standstill_s=301.0),))
    (reason,) = health(still).reasons
    assert reason.startswith("t[0] has a lag of 7 records, and no record has arrived for 301 s")
    assert reason.endswith("ehkafka offsets skip t/0@4 --group g (shows a preview; add --yes to skip)")


def test_a_batch_that_cannot_be_read_is_one_reason_with_the_way_past_it() -> None:
    """At once, however short it has lasted; that the partition stands still is the same problem."""
    broken = Unreadable(4, "_BAD_MSG (no): it is damaged", is_batch=True, lasts_s=0.2)
    stands = replace(PARTITION, unreadable=broken, standstill_s=301.0)
    (reason,) = health(replace(WELL, partitions=(stands,))).reasons
    assert reason.startswith(
        "The batch at t[0]@4 cannot be read: _BAD_MSG (no): it is damaged. No record after"
    )
    assert reason.endswith("--group g (shows a preview; add --yes to skip), and start the app again.")
    refused = replace(PARTITION, unreadable=replace(broken, is_batch=False))
    (reason,) = health(replace(WELL, partitions=(refused,))).reasons
    assert reason.startswith("The broker does not allow reading t[0]@4: _BAD_MSG")


def test_one_record_is_one_problem_whatever_is_wrong_with_it() -> None:
    """A call past its deadline, its age, its key's followers, its partition's silence: one sentence."""
    stuck = Unfinished(4, "k", 400.0, 0, "running", deadline_s=5.0, is_stuck=True, status="running")
    call = OverdueAttempt("handle", P0, 4, "k", 1, 399.0, 5.0, "ehkafka-handle-1")
    other = replace(call, offset=6, key="l")
    still = replace(PARTITION, oldest=stuck, standstill_s=301.0, parked_full_key="k", parked_records=900)
    late, one = health(replace(WELL, partitions=(still,), overdue=(call, other))).reasons
    assert late.startswith("t[0]@4, key k: attempt 1 has run for 399 s in handler 'handle' (deadline_s=5).")
    assert "ehkafka offsets skip t/0@4 --group g" in late
    assert "has reached its limit of 900 records" in late
    assert one.startswith("t[0]@6, key l: attempt 1 has run for 399 s")


def test_a_letter_that_is_not_acknowledged_is_its_records_one_problem() -> None:
    """Another record's letter leaves the oldest its own."""
    sending = Unfinished(4, "k", 400.0, 1, "sending", is_stuck=True, status="waiting: broker")
    waits = replace(WELL, partitions=(replace(PARTITION, oldest=sending),))
    assert len(health(waits, "The dead letter of t[0]@4 has not been acknowledged").reasons) == 1
    assert len(health(waits, "The dead letter of t[0]@44 has not been acknowledged").reasons) == 2


def test_an_old_record_is_a_reason_once_it_is_stuck() -> None:
    """A handler may take its deadline: until then it is slow."""
    slow = Unfinished(4, "k", 400.0, 2, "queued", "ValueError: no", deadline_s=200.0)
    assert health(replace(WELL, partitions=(replace(PARTITION, oldest=slow),))).ok
    late = replace(slow, is_stuck=True)
    (reason,) = health(replace(WELL, partitions=(replace(PARTITION, oldest=late),))).reasons
    assert reason.endswith("(queued; limit 500 s). Failed attempts: 2, the last with ValueError: no.")


def test_a_standby_is_healthy_and_says_so() -> None:
    """It owns nothing because others own all."""
    found = health(replace(WELL, partitions=(), is_standby=True))
    assert found.ok
    assert found.notes[0].startswith("standby: group 'g'")


def test_lag_is_unknown_without_a_broker_and_after_a_loss() -> None:
    """0 would be a guess: what came meanwhile is unknown."""
    assert WELL.lag_records == 7
    assert replace(WELL, is_cut_off=True).lag_records is None
    assert replace(WELL, partitions=(), lost_s=1.0).lag_records is None


def test_a_snapshot_can_be_pickled_and_written_as_json() -> None:
    """The totals are among the fields."""
    assert pickle.loads(pickle.dumps(WELL)) == WELL
    found = orjson.loads(orjson.dumps(WELL.as_dict()))
    assert found["partitions"][0]["partition"] == {"topic": "t", "partition": 0}
    assert (found["lag_records"], found["backlog_records"], found["counters"]) == (7, 1, {"commits": 3})
    assert orjson.loads(orjson.dumps(health(WELL).as_dict())) == {"ok": True, "reasons": [], "notes": []}


def test_a_web_framework_returns_snapshot_and_health_as_they_are() -> None:
    """FastAPI turns each part of them into JSON, whether the route is annotated with the type or not."""
    part = replace(PARTITION, oldest=Unfinished(4, "k", 400.0, 0, "running"))
    member = MemberSnapshot(1, 77, "running", 0, True, True, 0.1, "", WELL)
    whole = replace(
        WELL,
        partitions=(part,),
        overdue=(OverdueAttempt("h", P0, 4, "k", 1, 9.0, 1.0, "w"),),
        mirror=MirrorState("store", 0, 0.0, None),
        members=(member,),
        handlers=(HandlerSnapshot("h", ("t",), 4, {"finished": 4}),),
    )
    web = fastapi.FastAPI()

    @web.get("/plain")
    def plain():  # type: ignore[no-untyped-def]  # noqa: ANN202 - as users write it
        return whole

    @web.get("/typed")
    def typed() -> Snapshot:
        return whole

    @web.get("/health")
    def healthy() -> Health:
        return Health(("a reason",))

    client = TestClient(web)
    for path in ("/plain", "/typed"):
        found = client.get(path).json()
        assert found["counters"] == found["members"][0]["snapshot"]["counters"] == {"commits": 3}
        assert found["handlers"][0]["attempts"] == {"finished": 4}
    assert client.get("/health").json()["reasons"] == ["a reason"]
