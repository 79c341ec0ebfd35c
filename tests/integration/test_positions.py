from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from ehkafka.embedded.topics import commits, produce
from ehkafka.events import OffsetGap
from tests.kit.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000


class Seen:
    """A handler that keeps the offsets it was given, by partition."""

    def __init__(self, work_s: float = 0.0) -> None:
        self.offsets: dict[int, list[int]] = {}
        self._work_s = work_s
        self._lock = threading.Lock()

    def __call__(self, record: ehkafka.Record) -> None:
        """Take a record; called by any worker."""
        if self._work_s:
            time.sleep(self._work_s)
        with self._lock:
            self.offsets.setdefault(record.partition(), []).append(record.offset())

    @property
    def count(self) -> int:
        """How many records came."""
        return sum(map(len, self.offsets.values()))


@pytest.fixture
def events() -> Events:
    """Return a hook that keeps all events."""
    return Events()


@pytest.fixture
def narrow(stage_on: Callable[..., Any], kafka: Any) -> Any:
    """Return a stage on the shared broker with a topic of one partition."""
    return stage_on(kafka, 1)


def fill(stage: Any, count: int, *, partition: int = 0, **options: Any) -> None:
    """Produce records with keys of their own into one partition."""
    records = [(b"key-%d" % number, b"x") for number in range(count)]
    produce(stage.broker.bootstrap, stage.topic, records, partition=partition, **options)


def test_the_handler_that_holds_the_first_record_holds_the_commit(
    narrow: Any, eventually: Callable[..., None]
) -> None:
    """Nothing is committed past an unfinished record, whose end moves the commit at once."""
    fill(narrow, 10)
    release = threading.Event()

    def hold_first(record: ehkafka.Record) -> None:
        if record.offset() == 0:
            release.wait(30.0)
        time.sleep(0.001)

    app = narrow.app(hold_first, commit_interval_s=0.1)
    app.start()
    try:
        eventually(lambda: app.snapshot().finished_records == 9, "nine are finished")
        time_passes(app, eventually, intervals=5)
        assert narrow.committed()[0] in (None, 0)
    finally:
        release.set()
    narrow.wait_until_committed({0: 10})


def time_passes(app: ehkafka.App, eventually: Callable[..., None], *, intervals: int) -> None:
    """Wait for so many commit intervals of an app."""
    until_s = time.monotonic() + intervals * app.settings.commit_interval_s
    eventually(lambda: time.monotonic() > until_s, "time passes")


def test_the_commit_passes_holes_in_the_log_and_its_end(narrow: Any, eventually: Callable[..., None]) -> None:
    """Markers of transactions leave holes, the last one and an aborted one's records at the log's end."""
    producer = Producer(
        {"bootstrap.servers": narrow.broker.bootstrap, "transactional.id": narrow.topic, "log_level": 0}
    )
    producer.init_transactions(20.0)
    for number, ending in enumerate((producer.commit_transaction, producer.abort_transaction) * 3):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(narrow.topic, b"x", b"key-%d" % number, partition=0)
        producer.flush(20.0)  # what is still here when a transaction is aborted never gets an offset
        ending(20.0)
    seen = Seen()
    app = narrow.app(seen, commit_interval_s=0.1)
    app.start()
    # Each transaction takes four offsets, the marker's last; every other one is aborted.
    wanted = [offset for first in (0, 8, 16) for offset in range(first, first + 3)]
    eventually(lambda: seen.count == len(wanted), lambda: f"{wanted} handled; {seen.offsets} are")
    narrow.wait_until_committed({0: 24})
    app.stop()
    assert sorted(seen.offsets[0]) == wanted
    verdict = narrow.verdict()
    assert verdict.ok, verdict.report()
    fill(narrow, 1)
    again = Seen()
    narrow.app(again, commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 25})
    assert again.offsets == {0: [24]}


def test_a_log_that_starts_late_is_committed_at_its_own_offsets(narrow: Any) -> None:
    """The log starts at 500; a new group that handles ten from the earliest commits 510."""
    fill(narrow, 510)
    narrow.broker.delete_records(narrow.topic, 0, 500)
    seen = Seen()
    narrow.app(seen, commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 510})
    assert sorted(seen.offsets[0]) == list(range(500, 510))


def test_an_operators_rewind_is_obeyed(narrow: Any) -> None:
    """The group's commit was moved back: the records from there on are handled again."""
    fill(narrow, 20)
    first = narrow.app(Seen(), commit_interval_s=0.1)
    first.start()
    narrow.wait_until_committed({0: 20})
    first.stop()
    narrow.broker.set_committed(narrow.group, {(narrow.topic, 0): 5})
    seen = Seen()
    narrow.app(seen, commit_interval_s=0.1, start="latest").start()
    narrow.wait_until_committed({0: 20})
    assert sorted(seen.offsets[0]) == list(range(5, 20))


@pytest.mark.parametrize(
    ("wanted", "action", "lost", "handled"),
    [
        pytest.param(3, "earliest", 7, [10, 11], id="deleted-earliest"),
        pytest.param(3, "latest", 9, [], id="deleted-latest"),
        pytest.param(500, "earliest", 0, [10, 11], id="beyond-earliest"),
        pytest.param(500, "latest", 2, [], id="beyond-latest"),
    ],
)
def test_a_commit_outside_of_the_log_follows_the_policy(
    narrow: Any, events: Events, wanted: int, action: str, lost: int, handled: list[int]
) -> None:
    """Of a log of 10 to 12: the gap is reported with its size and committed, so a restart is silent."""
    fill(narrow, 12)
    narrow.broker.delete_records(narrow.topic, 0, 10)
    narrow.broker.set_committed(narrow.group, {(narrow.topic, 0): wanted})
    seen = Seen()
    for next_offset in (12, 13):
        app = narrow.app(seen, commit_interval_s=0.1, on_out_of_range=action)
        app.add_hook(events)
        app.start()
        narrow.wait_until_committed({0: next_offset})
        app.stop()
        fill(narrow, 1)
    (gap,) = events.of(OffsetGap)
    assert (gap.wanted_offset, gap.log_start, gap.log_end) == (wanted, 10, 12)
    assert (gap.lost_records, gap.resumed_at) == (lost, 10 if action == "earliest" else 12)
    assert sorted(seen.offsets.get(0, [])) == [*handled, 12]


def test_a_topic_that_was_made_anew_begins_a_new_epoch(narrow: Any, events: Events) -> None:
    """Row 23: the commit of the old log lies beyond the new one's end; all of the new one is handled."""
    fill(narrow, 20)
    first = narrow.app(Seen(), commit_interval_s=0.1)
    first.start()
    narrow.wait_until_committed({0: 20})
    first.stop()
    narrow.broker.delete_topic(narrow.topic)
    narrow.broker.create_topic(narrow.topic, 1)
    narrow.broker.set_committed(narrow.group, {(narrow.topic, 0): 20})  # the broker had forgotten it
    fill(narrow, 5)
    seen = Seen()
    app = narrow.app(seen, commit_interval_s=0.1, on_out_of_range="earliest")
    app.add_hook(events)
    app.start()
    narrow.wait_until_committed({0: 5})
    assert sorted(seen.offsets[0]) == list(range(5))
    assert [(gap.wanted_offset, gap.log_end, gap.lost_records) for gap in events.of(OffsetGap)] == [
        (20, 5, 0)
    ]


def test_ten_deletions_under_load_are_reported_to_the_record(narrow: Any, events: Events) -> None:
    """Row 12: handled and lost together are what was produced; nothing is lost without a word."""
    seen = Seen(work_s=0.005)
    # A batch at a time: the client must not have all of them before they are deleted.
    one_batch = {"queued.min.messages": 1, "max.partition.fetch.bytes": 1_000}
    app = narrow.app(
        seen, workers=2, backlog_records_max=40, consume_records_max=10, commit_interval_s=0.1, start=0,
        on_out_of_range="earliest", consumer=one_batch,
    )  # fmt: skip
    app.add_hook(events)
    app.start()
    for round_ in range(1, 11):
        for _ in range(20):
            fill(narrow, 10)
        narrow.broker.delete_records(narrow.topic, 0, 200 * round_ - 20)
        narrow.wait_until_committed({0: 200 * round_})
    app.stop()
    lost = [
        offset for gap in events.of(OffsetGap) for offset in range(gap.wanted_offset, gap.resumed_at or 0)
    ]
    assert len(lost) == sum(gap.lost_records for gap in events.of(OffsetGap)) > 0
    assert sorted(seen.offsets[0] + lost) == list(range(2_000))


def test_each_partition_begins_where_the_mapping_says(stage_on: Callable[..., Any], kafka: Any) -> None:
    """An offset, a time, the end and the rest by `*`, looked up together."""
    wide = stage_on(kafka, 4)
    hour_ago_ms = int(time.time() * 1000) - HOUR_MS
    for partition in range(4):
        fill(wide, 3, partition=partition, timestamp_ms=hour_ago_ms - HOUR_MS)
        fill(wide, 2, partition=partition, timestamp_ms=hour_ago_ms)
    start = {0: 1, (wide.topic, 1): timedelta(hours=1.5), 2: "latest", "*": "earliest"}
    seen = Seen()
    wide.app(seen, start=start, commit_interval_s=0.1).start()
    wide.wait_until_committed(dict.fromkeys(range(4), 5))
    begun = {partition: sorted(offsets) for partition, offsets in seen.offsets.items()}
    assert begun == {0: [1, 2, 3, 4], 1: [3, 4], 3: [0, 1, 2, 3, 4]}


def test_events_that_outlived_their_retention_are_skipped(narrow: Any) -> None:
    """`max_age`: what is older is neither handled nor in the way of the commit."""
    now_ms = int(time.time() * 1000)
    fill(narrow, 5, timestamp_ms=now_ms - 3 * HOUR_MS)
    fill(narrow, 2)
    seen = Seen()
    app = narrow.app(seen, commit_interval_s=0.1, max_age=timedelta(hours=1))
    app.start()
    narrow.wait_until_committed({0: 7})
    assert sorted(seen.offsets[0]) == [5, 6]
    assert app.snapshot().counters["records_too_old"] == app.snapshot().skipped_records == 5


def test_latest_is_committed_before_the_first_record(narrow: Any) -> None:
    """`latest` is committed at once as a number: what comes during an absence is not skipped."""
    fill(narrow, 10)
    first = narrow.app(Seen(), start="latest", commit_interval_s=60.0)
    first.start()
    narrow.wait_until_committed({0: 10})
    first.stop()
    fill(narrow, 5)
    seen = Seen()
    narrow.app(seen, start="latest", commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 15})
    assert sorted(seen.offsets[0]) == list(range(10, 15))


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda _now: 4, id="offset"),
        pytest.param(lambda now: now - timedelta(hours=1, minutes=30), id="datetime"),
        pytest.param(lambda _now: timedelta(hours=1, minutes=30), id="timedelta"),
        pytest.param(lambda now: lambda _topic, _partition: now - timedelta(hours=1.5), id="callable"),
        pytest.param(lambda _now: lambda _topic, partition: 4 + partition, id="callable-offset"),
    ],
)
def test_a_new_group_begins_where_it_was_asked_to(narrow: Any, start: Callable[[datetime], Any]) -> None:
    """A group without a commit begins at an offset, at a time, or at what a callable says."""
    now = datetime.now(UTC)
    now_ms = int(now.timestamp() * 1000)
    fill(narrow, 4, timestamp_ms=now_ms - 2 * HOUR_MS)
    fill(narrow, 3, timestamp_ms=now_ms - HOUR_MS)
    seen = Seen()
    narrow.app(seen, start=start(now), commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 7})
    assert sorted(seen.offsets[0]) == [4, 5, 6]


def test_a_time_after_the_last_record_begins_at_the_end(narrow: Any) -> None:
    """A time that no record has reached yet is the end of the log, and committed as such."""
    fill(narrow, 5, timestamp_ms=int(time.time() * 1000) - HOUR_MS)
    seen = Seen()
    narrow.app(seen, start=timedelta(minutes=5), commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 5})
    fill(narrow, 2)
    narrow.wait_until_committed({0: 7})
    assert seen.offsets == {0: [5, 6]}


def test_a_commit_carries_the_leader_epoch(narrow: Any) -> None:
    """The commit tells which leader wrote the record before it, so that a cut log can be noticed."""
    fill(narrow, 5)
    narrow.app(Seen(), commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 5})
    (commit,) = commits(narrow.broker.bootstrap, narrow.group, narrow.topic)
    assert commit.leader_epoch == 0


def test_partitions_that_are_added_are_picked_up(narrow: Any) -> None:
    """Row 23: partitions added while the app runs are read from their start, within the metadata's age."""
    fill(narrow, 3)
    seen = Seen()
    properties = {"topic.metadata.refresh.interval.ms": 300, "metadata.max.age.ms": 1000}
    narrow.app(seen, commit_interval_s=0.1, consumer=properties).start()
    narrow.wait_until_committed({0: 3})
    narrow.broker.create_partitions(narrow.topic, 3)
    fill(narrow, 4, partition=2)
    narrow.wait_until_committed({0: 3, 2: 4}, 15.0)
    assert sorted(seen.offsets[2]) == [0, 1, 2, 3]
