from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

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


def fill(stage: Any, count: int, *, partition: int = 0, **options: Any) -> None:
    """Produce records with keys of their own into one partition."""
    records = [(b"key-%d" % number, b"x") for number in range(count)]
    produce(stage.broker.bootstrap, stage.topic, records, partition=partition, **options)


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


def test_a_commit_carries_the_leader_epoch(narrow: Any) -> None:
    """The commit tells which leader wrote the record before it, so that a cut log can be noticed."""
    fill(narrow, 5)
    narrow.app(Seen(), commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 5})
    (commit,) = commits(narrow.broker.bootstrap, narrow.group, narrow.topic)
    assert commit.leader_epoch == 0
