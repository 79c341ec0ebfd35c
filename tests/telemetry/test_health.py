"""Health and the snapshot as values: which reasons there are, and that JSON and pickle can say them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import orjson

from ehkafka.records import TopicPartition
from ehkafka.telemetry.health import health_of
from ehkafka.telemetry.snapshot import Health, PartitionSnapshot, Snapshot, Unfinished

P0 = TopicPartition("t", 0)
PARTITION = PartitionSnapshot(P0, 1, 7, 1, 100, 0, 0, None, 1, 4, 4, 5, 4, 0, 0, False, None)
WELL = replace(
    Snapshot.empty("g", "broker:9092", "running", 1_700_000_000.0),
    partitions=(PARTITION,),
    counters=MappingProxyType({"commits": 3}),
)


def health(snapshot: Snapshot) -> Health:
    """Return its health with the default limits."""
    options: dict[str, Any] = {"poll_silence_s": 0.0, "failure": None, "commit_problem": None}
    return health_of(snapshot, stuck_s=300.0, unreachable_s=15.0, **options)


def test_no_broker_and_lost_partitions_are_reasons_that_say_since_when() -> None:
    """Both with the time on the clock; within `unreachable_s` neither is."""
    assert health(replace(WELL, broker_silence_s=14.9, lost_s=14.9)).ok
    silent = health(replace(WELL, broker_silence_s=20.0)).reasons
    assert silent[0].startswith("No broker of broker:9092 has answered since 22:13:00 UTC, for 20 s")
    lost = health(replace(WELL, lost_s=20.0, lost_partitions=4)).reasons
    assert lost[0].startswith("4 partitions were lost and none came back since 22:13:00 UTC (20 s).")


def test_lag_without_progress_is_a_reason() -> None:
    """The docstring of `stuck_s` promises it."""
    still = replace(WELL, partitions=(replace(PARTITION, standstill_s=301.0),))
    (reason,) = health(still).reasons
    assert reason.startswith("t[0] lags 7 records behind, and nothing of them has arrived for 301 s")


def test_a_slow_handler_within_its_own_deadline_is_not_stuck() -> None:
    """A call may take its `deadline_s`, however short `stuck_s` is."""
    slow = Unfinished(4, "k", 400.0, 0, "running", deadline_s=600.0)
    assert health(replace(WELL, partitions=(replace(PARTITION, oldest=slow),))).ok
    late = replace(slow, deadline_s=0.0)
    assert not health(replace(WELL, partitions=(replace(PARTITION, oldest=late),))).ok


def test_a_standby_is_healthy_and_says_so() -> None:
    """It owns nothing because others own all."""
    found = health(replace(WELL, partitions=(), is_standby=True))
    assert found.ok
    assert found.notes[0].startswith("standby: group 'g'")


def test_lag_is_unknown_without_a_broker_and_after_a_loss() -> None:
    """0 would be a guess: nobody knows what came meanwhile."""
    assert WELL.lag_records == 7
    assert replace(WELL, is_cut_off=True).lag_records is None
    assert replace(WELL, partitions=(), lost_s=1.0).lag_records is None


def test_a_snapshot_can_be_pickled_and_written_as_json() -> None:
    """Also with its read-only counters; the totals are among the fields."""
    assert pickle.loads(pickle.dumps(WELL)) == WELL
    found = orjson.loads(orjson.dumps(WELL.as_dict()))
    assert found["partitions"][0]["partition"] == {"topic": "t", "partition": 0}
    assert (found["lag_records"], found["backlog_records"], found["counters"]) == (7, 1, {"commits": 3})
    assert orjson.loads(orjson.dumps(health(WELL).as_dict())) == {"ok": True, "reasons": [], "notes": []}
