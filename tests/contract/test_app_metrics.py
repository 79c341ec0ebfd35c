"""Each metric of a running app moves when what it counts happens; those of members in `tests/members`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import ehkafka
from ehkafka.checkpoints import MemoryStore, StoreMirror
from ehkafka.events import OffsetGap, PartitionLost
from ehkafka.metrics import Collector
from ehkafka.otel import Metrics
from ehkafka.telemetry.catalogue import APP, HANDLER, PARTITION
from ehkafka.testing import ApiKey
from tests.kit.events import Events
from tests.kit.metrics import Shown
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

MOVED: set[str] = set()
# Of most of these only a real service gives the reason: looked at with hand-made snapshots, and where they
# are made.
ELSEWHERE = {
    "ehkafka_throttled_seconds_total",  # tests/intake/test_throttle.py, tests/integration
    "ehkafka_token_valid_seconds",  # tests/endpoint/test_token_source.py
    "ehkafka_standstill_seconds",  # tests/integration
    "ehkafka_partition_unreadable",  # test_app_unreadable.py
    "ehkafka_unacknowledged_outputs",  # test_app_outputs_shown.py
    "ehkafka_unacknowledged_messages",  # test_app_producer.py
    "ehkafka_batch_seconds",  # tests/spark/engine/test_follow.py, tests/spark/test_observing.py
}


def moves(*names: str) -> Callable[[Any], Any]:
    """Mark a test by the metrics that it makes move."""
    MOVED.update(f"ehkafka_{name}" for name in names)
    return lambda test: test


def test_each_metric_of_an_app_has_a_test_that_moves_it() -> None:
    """A new one needs one, too."""
    names = {metric.name for metric in (*APP, *HANDLER, *PARTITION)}
    assert names - MOVED == ELSEWHERE
    assert names >= MOVED


def started(app: Any) -> Shown:
    """Start an app, and return what its collector shows."""
    shown = Shown(Collector(app))
    app.start()
    return shown


@moves("received_records_total", "in_flight_records", "backlog_records", "backlog_bytes", "lag_records")
@moves("watermark_next_offset", "committed_next_offset", "oldest_unfinished_seconds", "lanes", "workers")
@moves("running", "uptime_seconds", "partitions", "finished_records_total", "commits_total")
@moves("rebalances_total", "events_total", "attempts_total", "handler_seconds", "returned_records_total")
def test_a_record_s_way_is_shown(lab: Any, recorder: Any) -> None:
    """Received, in flight, in the way of the commit, finished, committed."""
    gate = recorder.block(b"slow")
    lab.produce("a b slow c slow d")
    app = lab.app(recorder, workers=3)
    shown = started(app)
    value = shown.value
    wait_until(lambda: recorder.count == 4)
    wait_until(lambda: value("ehkafka_committed_next_offset", topic="t", partition="0") == 2)
    wait_until(lambda: value("ehkafka_lag_records") == 2)
    assert value("ehkafka_watermark_next_offset") == 2
    (partition,) = app.snapshot().partitions
    assert (partition.oldest.offset, partition.oldest.key, partition.oldest.state) == (2, "slow", "running")
    assert (partition.lanes, partition.paused, partition.epoch) == (1, False, 1)
    assert (value("ehkafka_received_records_total"), value("ehkafka_finished_records_total")) == (6, 4)
    # Two values of one byte, and the key twice.
    assert (value("ehkafka_backlog_records"), value("ehkafka_backlog_bytes")) == (2, 2 + 2 * 4)
    assert (value("ehkafka_in_flight_records"), value("ehkafka_lanes")) == (1, 1)
    assert (value("ehkafka_running"), value("ehkafka_partitions"), value("ehkafka_workers")) == (1, 1, 3)
    assert value("ehkafka_events_total", event="PartitionAssigned") == 1
    assert value("ehkafka_rebalances_total", kind="assigned") == 1
    assert (value("ehkafka_commits_total", result="acknowledged") or 0) >= 1
    first_s = value("ehkafka_oldest_unfinished_seconds") or 0
    wait_until(lambda: (value("ehkafka_oldest_unfinished_seconds") or 0) > first_s > 0)
    app.resize("Recorder", workers=5)
    assert value("ehkafka_workers") == 5
    gate.set()
    wait_until(lambda: value("ehkafka_lag_records") == 0)
    assert value("ehkafka_oldest_unfinished_seconds") == 0
    assert value("ehkafka_attempts_total", outcome="finished") == 6
    assert value("ehkafka_handler_seconds_count") == 6
    assert (value("ehkafka_uptime_seconds") or 0) > 0
    gate.clear()
    lab.produce("slow")
    wait_until(lambda: value("ehkafka_in_flight_records") == 1)
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(drain=False, timeout_s=0.1)
    assert (value("ehkafka_running"), value("ehkafka_partitions")) == (0, 0)
    assert value("ehkafka_lag_records") is None
    assert value("ehkafka_returned_records_total") == 1
    gate.set()


@moves("parked_records", "parked_bytes", "blocked_lanes", "held_lanes", "skipped_records_total")
def test_keys_that_wait_are_shown(lab: Any) -> None:
    """A retry is blocked, a held key is blocked and held; each attempt counts by what it led to."""

    def handle(record: Any) -> None:
        if record.key() == b"later" and record.attempt == 1:
            raise ehkafka.RetryLater(after_s=60.0)
        if record.key() == b"skip":
            raise ehkafka.SkipRecord("not wanted")
        if record.key() == b"bad":
            raise ValueError("poison")

    lab.produce("good bad later skip bad good")
    app = lab.app(handle, on_failure=ehkafka.Hold())
    value = started(app).value
    wait_until(lambda: value("ehkafka_attempts_total", outcome="finished") == 2)
    wait_until(lambda: (value("ehkafka_blocked_lanes"), value("ehkafka_held_lanes")) == (2, 1))
    assert value("ehkafka_parked_records") == 3
    assert value("ehkafka_parked_bytes") == 3 + 2 * 3 + 5
    wait_until(lambda: value("ehkafka_skipped_records_total") == 1)
    outcomes = {outcome: value("ehkafka_attempts_total", outcome=outcome) for outcome in ("retried", "held")}
    assert outcomes == {"retried": 1, "held": 1}
    assert value("ehkafka_attempts_total", outcome="skipped") == 1
    assert value("ehkafka_handler_seconds_count") == 5
    app.stop(drain=False)


@moves("dead_letters_total")
def test_a_dead_letter_is_shown(dead: Any) -> None:
    """Once it is safe."""

    def handle(_record: Any) -> None:
        raise ValueError("poison")

    dead.produce("a b")
    app = dead.app(handle, on_failure=ehkafka.DeadLetter("dead"))
    value = started(app).value
    wait_until(lambda: value("ehkafka_dead_letters_total") == 2)
    assert value("ehkafka_attempts_total", outcome="dead_lettered", handler="handle") == 2


@moves("stale_records_total")
def test_a_late_result_is_shown(lab: Any, recorder: Any) -> None:
    """And the loss before it, which is a rebalance of its own kind."""
    keeper = Events()
    gate = recorder.block(lambda _record: len(recorder.started) < 2)
    lab.produce("a")
    app = lab.app(recorder)
    app.add_hook(keeper)
    value = started(app).value
    wait_until(lambda: recorder.started)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_until(lambda: keeper.of(PartitionLost))
    assert value("ehkafka_rebalances_total", kind="lost") == 1
    gate.set()
    wait_until(lambda: value("ehkafka_stale_records_total") == 1)
    assert value("ehkafka_attempts_total", outcome="stale") == 1


@moves("partition_paused")
def test_a_paused_partition_is_shown(lab: Any) -> None:
    """While its share of what may be parked is full."""

    def handle(_record: Any) -> None:
        raise ValueError("poison")

    retry = ehkafka.Retry(attempts=None, first_s=30.0, max_s=30.0)
    app = lab.app(handle, retry=retry, parked_records_max=20, consume_records_max=10)
    value = started(app).value
    wait_until(lambda: value("ehkafka_partition_paused") == 0)
    lab.produce("bad " * 30)
    wait_until(lambda: value("ehkafka_partition_paused") == 1)
    app.stop(drain=False)


@moves("overdue_calls")
def test_a_call_past_its_deadline_is_shown(lab: Any, recorder: Any) -> None:
    """Until it returns."""
    gate = recorder.block(b"slow")
    lab.produce("slow")
    app = lab.app(recorder, deadline_s=0.05)
    value = started(app).value
    wait_until(lambda: value("ehkafka_overdue_calls", handler="Recorder") == 1)
    gate.set()
    wait_until(lambda: value("ehkafka_overdue_calls") == 0)


@moves("poll_gap_seconds", "received_bytes_total", "broker_silence_seconds")
def test_the_poll_loop_and_the_connection_are_shown(lab: Any, recorder: Any) -> None:
    """A key function that takes its time holds the loop up; what arrives is counted on the socket."""

    def slow_key(record: Any) -> bytes:
        time.sleep(0.4)
        return bytes(record.key())

    app = lab.app(recorder, order_by=slow_key, unreachable_s=1.0)
    value = started(app).value
    wait_until(lambda: value("ehkafka_received_bytes_total"))
    before_bytes = value("ehkafka_received_bytes_total") or 0
    lab.produce("a", value=b"x" * 100_000)
    wait_until(lambda: recorder.count == 1)
    assert (value("ehkafka_poll_gap_seconds") or 0) >= 0.4
    wait_until(lambda: (value("ehkafka_received_bytes_total") or 0) >= before_bytes + 100_000)
    silences = {value("ehkafka_broker_silence_seconds") for _ in range(5)}
    assert len(silences) > 1


@moves("lost_records_total")
def test_records_that_the_log_no_longer_has_are_shown(lab: Any, recorder: Any, events: Any) -> None:
    """As many as there are between what was wanted and what is there."""
    lab.produce("a b c")
    app = lab.app(recorder, start=10, on_out_of_range="latest")
    value = started(app).value
    wait_until(lambda: events.of(OffsetGap))
    lost = sum(gap.lost_records for gap in events.of(OffsetGap))
    assert value("ehkafka_lost_records_total") == lost
    assert lost > 0


@moves("mirror_delay_seconds", "mirror_behind_partitions", "mirror_failing")
def test_a_mirror_that_is_behind_is_shown(lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long, of how many partitions, and that its store takes nothing."""
    store = MemoryStore()

    def broken(*_arguments: Any, **_options: Any) -> None:
        raise OSError("disk full")

    app = lab.app(recorder, mirror=StoreMirror(store=store))
    value = started(app).value
    wait_until(lambda: value("ehkafka_mirror_failing") == 0)
    monkeypatch.setattr(store, "write", broken)
    lab.produce("a b")
    wait_until(lambda: value("ehkafka_mirror_failing") == 1)
    wait_until(lambda: value("ehkafka_mirror_behind_partitions") == 1)
    wait_until(lambda: (value("ehkafka_mirror_delay_seconds") or 0) > 0)
    monkeypatch.undo()
    app.stop(timeout_s=5.0)


def sleeps(record: Any) -> None:
    """Take 20 ms for one record, nothing for the others."""
    if record.key() == b"slow":
        time.sleep(0.02)


async def sleeps_async(record: Any) -> None:
    """Likewise."""
    sleeps(record)


@pytest.mark.parametrize(
    ("handler", "options"),
    [(sleeps, {}), (sleeps, {"raw": True}), (sleeps_async, {})],
    ids=["threads", "raw", "tasks"],
)
def test_each_call_is_timed_and_a_slow_one_is_not_lost_among_quick_ones(
    lab: Any, handler: Any, options: dict[str, Any]
) -> None:
    """Whatever the way on which records come to their handler."""
    app = lab.app(None)
    app.handler("t", **options)(handler)
    value = started(app).value
    wait_until(lambda: value("ehkafka_partitions") == 1)
    quick = 0
    while quick < 2_000:
        lab.produce(" ".join(f"k{number}" for number in range(1_000)))
        quick += 1_000
        wait_until(lambda so_many=quick: value("ehkafka_finished_records_total") == so_many)
    lab.produce(" ".join(f"k{number}" for number in range(500)) + " slow " + "k1 " * 499)
    quick += 999
    wait_until(lambda: value("ehkafka_finished_records_total") == quick + 1)
    wait_until(lambda: value("ehkafka_handler_seconds_count") == quick + 1)
    assert (value("ehkafka_handler_seconds_sum") or 0) >= 0.02
    assert (value("ehkafka_handler_seconds_bucket", le="0.01") or 0) <= quick
    assert (value("ehkafka_handler_seconds_bucket", le="0.005") or 0) >= quick - 100


def test_records_that_were_finished_before_are_no_attempts(lab: Any) -> None:
    """They count as finished, without a call."""

    def handle(record: Any) -> None:
        if record.key() == b"bad":
            raise ValueError("poison")

    lab.produce("bad a b")
    first = lab.start(handle, on_failure=ehkafka.Hold())
    wait_until(lambda: first.snapshot().finished_records == 2)
    first.stop()
    again = lab.recorder()
    app = lab.app(again)
    value = started(app).value
    wait_until(lambda: value("ehkafka_finished_records_total") == 3)
    assert value("ehkafka_attempts_total", outcome="finished") == again.count == 1


def test_a_call_of_a_batch_handler_is_a_batch(lab: Any) -> None:
    """However many records it has."""
    app = lab.app(None)
    app.batch_handler("t", wait_s_max=0.2)(lambda batch: time.sleep(0.02 * bool(batch)))
    lab.produce("a b c d")
    value = started(app).value
    wait_until(lambda: value("ehkafka_attempts_total", outcome="finished") == 4)
    calls = value("ehkafka_handler_seconds_count") or 0
    assert 1 <= calls <= 2
    assert (value("ehkafka_handler_seconds_sum") or 0) >= 0.02 * calls


def test_calls_in_other_processes_are_timed(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the worker process says of its batch."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import contract_handlers  # noqa: PLC0415 - importable by children from the path above alone

    monkeypatch.setenv(contract_handlers.DIRECTORY, str(tmp_path))
    app = lab.app(contract_handlers.handle, workers=ehkafka.Processes(1))
    value = started(app).value
    lab.produce("a", value=b"sleep 0.02")
    wait_until(lambda: value("ehkafka_handler_seconds_count") == 1)
    assert value("ehkafka_handler_seconds_bucket", le="0.01") == 0


def test_without_a_collector_no_call_is_timed(lab: Any, recorder: Any) -> None:
    """And one that is made later sees the calls from then on."""
    lab.produce("a b")
    app = lab.start(recorder)
    wait_until(lambda: app.snapshot().finished_records == 2)
    assert app.snapshot().handlers[0].call_counts == ()
    value = Shown(Collector(app)).value
    assert value("ehkafka_handler_seconds_count") == 0
    assert value("ehkafka_attempts_total", outcome="finished") == 2
    lab.produce("c")
    wait_until(lambda: value("ehkafka_handler_seconds_count") == 1)


def test_a_running_app_is_shown_by_opentelemetry_too(lab: Any) -> None:
    """The same numbers, and calls are timed for it."""
    reader = InMemoryMetricReader()

    def points(name: str) -> dict[Any, Any]:
        data: Any = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        found = [point for metric in metrics if metric.name == name for point in metric.data.data_points]
        return {point.attributes.get("ehkafka.outcome"): point.value for point in found}

    lab.produce("a b c")
    app = lab.app(lambda record: record.value())
    Metrics(app, meter_provider=MeterProvider(metric_readers=[reader]))
    app.start()
    wait_until(lambda: points("ehkafka.attempts").get("finished") == 3)
    wait_until(lambda: points("ehkafka.lag.records") == {None: 0})
    assert points("ehkafka.handler.time")[None] > 0
    assert points("ehkafka.running") == {None: 1}
    app.stop()
    assert points("ehkafka.running") == {None: 0}
    assert points("ehkafka.lag.records") == {}
