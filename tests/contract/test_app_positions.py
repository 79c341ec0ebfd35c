"""Where partitions begin, positions that the log does not hold, events that are too old."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

import pytest

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.events import OffsetGap, PartitionAssigned, RecordsTooOld
from ehkafka.progress.metadata import facts_of
from tests.contract.conftest import ends_with
from tests.contract.mirrored import commit, commit_of, text_of
from tests.kit.waiting import wait_until


def test_each_partition_begins_where_the_mapping_says(lab: Any, recorder: Any) -> None:
    """An offset, `earliest`, `latest` and the rest by `*`, in one start; `latest` is committed at once."""
    for partition in range(4):
        lab.produce("a b c d", topic="t4", partition=partition)
    start = {0: 1, ("t4", 1): "earliest", 2: "latest", "*": 3}
    app = lab.start(recorder, "t4", start=start, commit_interval_s=60.0)
    wait_until(lambda: recorder.count == 8)
    wait_until(lambda: lab.committed(2, topic="t4") == 4)
    app.stop()
    starts = {p: sorted(recorder.offsets(p, "t4")) for p in range(4)}
    assert starts == {0: [1, 2, 3], 1: [0, 1, 2, 3], 2: [], 3: [3]}


@pytest.mark.parametrize("start", ["latest", timedelta(0), 1, lambda _topic, _partition: "latest"])
def test_a_partition_that_is_new_begins_with_its_log(
    lab: Any, recorder: Any, caplog: pytest.LogCaptureFixture, start: Any
) -> None:
    """The group's commits say that the topic had two partitions: 2 and 3 are handled whole."""
    for partition in range(4):
        lab.produce("a b", topic="t4", partition=partition)
    commit(lab, 2, topic="t4", metadata=text_of(2, first_partitions=2))
    caplog.set_level(logging.INFO, "ehkafka")
    app = lab.start(recorder, "t4", start=start)
    wait_until(lambda: [lab.committed(number, topic="t4") for number in range(4)] == [2] * 4)
    app.stop()
    assert [sorted(recorder.offsets(number, "t4")) for number in (0, 2, 3)] == [[], [0, 1], [0, 1]]
    assert len(recorder.offsets(1, "t4")) == (1 if start == 1 else 0)
    assert "t4[3] from 0 (a new partition, so it is read from its beginning, not from start=)" in caplog.text
    assert facts_of(*commit_of(lab, 3, "t4")).first_partitions == 2


def test_a_partition_that_the_mapping_leaves_out_ends_the_app(lab: Any, recorder: Any) -> None:
    """It is refused by name, and nothing is committed for it."""
    lab.produce("a", topic="t4", partition=0)
    app = lab.start(recorder, "t4", start={0: 0, 1: 0, 3: 0})
    ends_with(app, ehkafka.errors.ConfigurationError, r"no position for t4\[2\]")
    assert lab.committed(2, topic="t4") is None


def test_the_start_callables_error_ends_the_app_with_the_partitions_name(lab: Any, recorder: Any) -> None:
    """It runs inside the assignment; its error is no engine error."""
    app = lab.start(recorder, start=lambda _topic, partition: {}[partition])
    ends_with(app, ehkafka.errors.ConfigurationError, r"start callable failed for t\[0\]: KeyError")


@pytest.mark.parametrize(
    ("wanted", "action", "lost", "handled"),
    [
        pytest.param(3, "earliest", 7, [10, 11], id="deleted-earliest"),
        pytest.param(3, "latest", 9, [], id="deleted-latest"),
        pytest.param(500, "earliest", 0, [10, 11], id="beyond-earliest"),
        pytest.param(500, "latest", 2, [], id="beyond-latest"),
    ],
)
@pytest.mark.parametrize("given", ["committed", "start"])
def test_a_position_outside_of_the_log_follows_the_policy(
    lab: Any, events: Any, given: str, wanted: int, action: str, lost: int, handled: list[int]
) -> None:
    """Of a log of 10 to 12: the gap is reported with its size, and committed, so it is reported once."""
    lab.produce("a " * 12)
    lab.broker.delete_records("t", 0, 10)
    if given == "committed":
        commit(lab, wanted)
    start = wanted if given == "start" else "earliest"
    for end in (12, 13):
        recorder = lab.recorder()
        app = lab.start(recorder, start=start, on_out_of_range=action)
        if end == 12:
            wait_until(lambda: lab.committed() == 12)
            assert recorder.offsets() == handled
            assert app.snapshot().counters["OffsetGap"] == 1
            assert app.snapshot().counters["records_lost"] == lost
        lab.produce("z")
        wait_until(lambda recorder=recorder, end=end: recorder.finished_offsets()[-1:] == [end])
        assert app.health().ok
        app.stop()
    (gap,) = events.of(OffsetGap)
    assert (gap.wanted_offset, gap.log_start, gap.log_end) == (wanted, 10, 12)
    assert (gap.action, gap.lost_records) == (action, lost)
    assert gap.resumed_at == (10 if action == "earliest" else 12)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (3, r"t\[0\].*offset 3.*now holds offsets 10 to 12.*7 records are gone"),
        (500, "ends 488 offsets before that record"),
    ],
)
@pytest.mark.parametrize("given", ["committed", "start"])
def test_a_position_outside_of_the_log_stops_the_app_and_is_not_passed(
    lab: Any, recorder: Any, events: Any, given: str, wanted: int, words: str
) -> None:
    """By default. A start is never committed: a group's commit wins over any later start."""
    lab.produce("a " * 12)
    lab.broker.delete_records("t", 0, 10)
    if given == "committed":
        commit(lab, wanted)
    app = lab.start(recorder, start=wanted if given == "start" else "earliest")
    assert ends_with(app, ehkafka.errors.OffsetGapError, words).exit_code == 3
    assert recorder.started == []
    assert lab.committed() == (wanted if given == "committed" else None)
    assert [(gap.action, gap.resumed_at) for gap in events.of(OffsetGap)] == [("stop", None)]


def test_row_12_ten_deletions_under_load_are_reported_to_the_record(lab: Any, events: Any) -> None:
    """Row 12: handled and lost together are what was produced, and nothing is lost without a word."""
    recorder = lab.recorder(lambda _record: time.sleep(0.001))
    app = lab.start(
        recorder, workers=2, backlog_records_max=40, consume_records_max=10, on_out_of_range="earliest"
    )
    produced = 0
    for _ in range(10):
        lab.produce(" ".join(f"k{n % 5}" for n in range(200)))
        produced += 200
        wait_until(lambda: app.snapshot().partitions and recorder.count > 0)
        lab.broker.delete_records("t", 0, produced - 20)
        wait_until(lambda produced=produced: lab.committed() == produced)
    app.stop()
    lost = [offset for gap in events.of(OffsetGap) for offset in range(gap.wanted_offset, gap.resumed_at)]
    assert len(lost) == sum(gap.lost_records for gap in events.of(OffsetGap)) > 0
    assert sorted(recorder.offsets() + lost) == list(range(produced))
    assert app.snapshot().counters["records_lost"] == len(lost)


def test_a_class_handler_gets_a_new_instance_for_a_log_that_begins_anew(lab: Any, events: Any) -> None:
    """A position that goes back is a new epoch: closed, opened, and committed below the old one."""
    lives: list[str] = []

    class Handler:
        """Notes its life."""

        def open(self, partition: Any) -> None:
            """Come to life."""
            lives.append(f"open {partition}")

        def process(self, record: Any) -> None:
            """Take a record."""
            lives.append(str(record.offset()))

        def close(self, reason: str) -> None:
            """End."""
            lives.append(f"close {reason}")

    lab.produce("a b")
    commit(lab, 50)
    app = lab.start(Handler, on_out_of_range="earliest")
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert lives == ["open t[0]", "close revoked", "open t[0]", "0", "1", "close stopped"]
    assert [event.epoch for event in events.of(PartitionAssigned)] == [1, 2]


def too_old(lab: Any, count: int, age_s: float, **options: Any) -> None:
    """Produce records of a certain age."""
    stamp_ms = int((time.time() - age_s) * 1000)
    produce(lab.broker.bootstrap, "t", [(b"k", b"x")] * count, partition=0, timestamp_ms=stamp_ms, **options)


@pytest.mark.parametrize("where", ["app", "handler"])
def test_events_older_than_max_age_are_skipped_counted_reported_and_passed(
    lab: Any, recorder: Any, events: Any, where: str
) -> None:
    """Old and new ones mixed: the new are handled in order, the commit passes all, one event tells."""
    too_old(lab, 5, 7_200)
    too_old(lab, 2, 0)
    too_old(lab, 3, 90_000)
    limit = {"max_age": timedelta(hours=1)}
    app = lab.app(**(limit if where == "app" else {}))
    app.handler("t", **(limit if where == "handler" else {}))(recorder)
    app.start()
    wait_until(lambda: lab.committed() == 10)
    snapshot = app.snapshot()
    assert (snapshot.received_records, snapshot.finished_records, snapshot.skipped_records) == (10, 2, 8)
    assert snapshot.counters["records_too_old"] == 8
    app.stop()
    assert recorder.offsets() == [5, 6]
    reported = events.of(RecordsTooOld)
    assert sum(event.records for event in reported) == 8
    assert (reported[0].first_offset, reported[-1].last_offset) == (0, 9)
    assert max(event.oldest_age_s for event in reported) == pytest.approx(90_000, abs=60)


def test_order_by_is_not_asked_for_events_that_are_too_old(lab: Any, recorder: Any) -> None:
    """What is not handled needs no key; a whole batch may be too old."""
    too_old(lab, 4, 7_200)
    asked: list[int] = []

    def order(record: Any) -> bytes:
        asked.append(record.offset())
        return b"k"

    app = lab.start(recorder, order_by=order, max_age=timedelta(hours=1))
    wait_until(lambda: lab.committed() == 4)
    lab.produce("a")
    wait_until(lambda: recorder.count == 1)
    app.stop()
    assert asked == [4]
