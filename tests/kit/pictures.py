"""A hand-made picture of an app in which every number differs, and what each metric says of it."""

from __future__ import annotations

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.records import TopicPartition
from ehkafka.telemetry.snapshot import (
    HandlerSnapshot,
    MemberSnapshot,
    PartitionSnapshot,
    Snapshot,
    Unfinished,
    Unreadable,
)
from ehkafka.workers.attempt_clock import OverdueAttempt
from ehkafka.workers.call_times import BOUNDS_S

COUNTS = (0,) * 9 + (4, 1) + (0,) * (len(BOUNDS_S) - 10)
PARTITION = PartitionSnapshot(
    partition=TopicPartition("orders", 3),
    epoch=1,
    lag_records=5,
    backlog_records=6,
    backlog_bytes=70,
    parked_records=8,
    parked_bytes=90,
    parked_full_key=None,
    lanes=10,
    watermark=11,
    committed=12,
    received_records=9,
    finished_records=7,
    skipped_records=0,
    dead_lettered_records=0,
    paused=True,
    oldest=Unfinished(7, "a key", 13.5, 1, "running"),
    standstill_s=14.0,
    in_flight_records=15,
    blocked_lanes=16,
    held_lanes=17,
    unreadable=Unreadable(11, "it is damaged", is_batch=True, lasts_s=2.0),
)
HANDLER = HandlerSnapshot("handle", ("orders",), 18, {"finished": 19, "held": 20}, COUNTS, 2.5)
ONE = Snapshot(
    group="g",
    endpoint="e",
    state="running",
    taken_at_s=1.0,
    uptime_s=21.0,
    partitions=(PARTITION,),
    received_records=22,
    finished_records=23,
    skipped_records=24,
    dead_lettered_records=25,
    returned_records=26,
    stale_records=27,
    counters={
        "CommitAcknowledged": 28,
        "CommitFailed": 29,
        "records_lost": 30,
        "rebalances_assigned": 31,
        "rebalances_revoked": 32,
        "rebalances_lost": 33,
    },
    throttled_s=34.0,
    overdue=(OverdueAttempt("handle", TopicPartition("orders", 3), 7, "a key", 1, 9.0, 3.0, "w"),),
    broker_silence_s=35.0,
    socket_bytes=36,
    mirror=MirrorState("folder", 37, 38.0, "full"),
    handlers=(HANDLER,),
    poll_gap_s=39.0,
    token_valid_s=40.0,
    unacknowledged_outputs=42,
    unacknowledged_messages=43,
    batch_s=44.0,
)
MEMBER = MemberSnapshot(2, 4711, "running", 41, True, True, 0.5, "", ONE)
# By name; where a metric has a label of its own, the value for one of its values.
SHOWN: dict[str, tuple[float, dict[str, str]]] = {
    "ehkafka_running": (1, {}),
    "ehkafka_uptime_seconds": (21, {}),
    "ehkafka_partitions": (1, {}),
    "ehkafka_received_records_total": (22, {}),
    "ehkafka_finished_records_total": (23, {}),
    "ehkafka_skipped_records_total": (24, {}),
    "ehkafka_dead_letters_total": (25, {}),
    "ehkafka_returned_records_total": (26, {}),
    "ehkafka_stale_records_total": (27, {}),
    "ehkafka_lost_records_total": (30, {}),
    "ehkafka_received_bytes_total": (36, {}),
    "ehkafka_commits_total": (29, {"result": "failed"}),
    "ehkafka_rebalances_total": (33, {"kind": "lost"}),
    "ehkafka_events_total": (28, {"event": "CommitAcknowledged"}),
    "ehkafka_overdue_calls": (1, {"handler": "handle"}),
    "ehkafka_throttled_seconds_total": (34, {}),
    "ehkafka_broker_silence_seconds": (35, {}),
    "ehkafka_poll_gap_seconds": (39, {}),
    "ehkafka_token_valid_seconds": (40, {}),
    "ehkafka_mirror_delay_seconds": (38, {}),
    "ehkafka_mirror_behind_partitions": (37, {}),
    "ehkafka_mirror_failing": (1, {}),
    "ehkafka_unacknowledged_outputs": (42, {}),
    "ehkafka_unacknowledged_messages": (43, {}),
    "ehkafka_batch_seconds": (44, {}),
    "ehkafka_attempts_total": (20, {"handler": "handle", "outcome": "held"}),
    "ehkafka_handler_seconds": (5, {"handler": "handle", "le": "1.0"}),
    "ehkafka_workers": (18, {"handler": "handle"}),
    "ehkafka_lag_records": (5, {"topic": "orders", "partition": "3"}),
    "ehkafka_backlog_records": (6, {"topic": "orders", "partition": "3"}),
    "ehkafka_backlog_bytes": (70, {"topic": "orders", "partition": "3"}),
    "ehkafka_in_flight_records": (15, {"topic": "orders", "partition": "3"}),
    "ehkafka_parked_records": (8, {"topic": "orders", "partition": "3"}),
    "ehkafka_parked_bytes": (90, {"topic": "orders", "partition": "3"}),
    "ehkafka_watermark_next_offset": (11, {"topic": "orders", "partition": "3"}),
    "ehkafka_committed_next_offset": (12, {"topic": "orders", "partition": "3"}),
    "ehkafka_oldest_unfinished_seconds": (13.5, {"topic": "orders", "partition": "3"}),
    "ehkafka_lanes": (10, {"topic": "orders", "partition": "3"}),
    "ehkafka_blocked_lanes": (16, {"topic": "orders", "partition": "3"}),
    "ehkafka_held_lanes": (17, {"topic": "orders", "partition": "3"}),
    "ehkafka_partition_paused": (1, {"topic": "orders", "partition": "3"}),
    "ehkafka_standstill_seconds": (14, {"topic": "orders", "partition": "3"}),
    "ehkafka_partition_unreadable": (1, {"topic": "orders", "partition": "3"}),
    "ehkafka_member_live": (1, {}),
    "ehkafka_member_ready": (1, {}),
    "ehkafka_member_restarts_total": (41, {}),
    "ehkafka_member_silence_seconds": (0.5, {}),
}


class Source:
    """What shows a snapshot as an app does."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot
        self.is_measured = False

    def snapshot(self) -> Snapshot:
        """Return it."""
        return self.now

    def measure(self) -> None:
        """Note that calls are to be timed."""
        self.is_measured = True
