"""Where a group begins by time, and the leader epoch of its commits: what a real broker alone says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.topics import commits, produce

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda now: now - timedelta(hours=1, minutes=30), id="datetime"),
        pytest.param(lambda _now: timedelta(hours=1, minutes=30), id="timedelta"),
        pytest.param(lambda now: lambda _topic, _partition: now - timedelta(hours=1.5), id="callable"),
    ],
)
def test_a_new_group_begins_at_a_time_and_commits_the_leader_epoch(
    narrow: Any, start: Callable[[datetime], Any]
) -> None:
    """The epoch is that of the leader that wrote the last record, so that a cut log can be noticed."""
    now = datetime.now(UTC)
    bootstrap, now_ms, seen = narrow.broker.bootstrap, int(now.timestamp() * 1000), list[int]()
    for count, hours in ((4, 2), (3, 1)):
        records = [(b"key-%d" % number, b"x") for number in range(count)]
        produce(bootstrap, narrow.topic, records, partition=0, timestamp_ms=now_ms - hours * HOUR_MS)
    narrow.app(lambda record: seen.append(record.offset()), start=start(now), commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 7})
    assert sorted(seen) == [4, 5, 6]
    (commit,) = commits(bootstrap, narrow.group, narrow.topic)
    assert commit.leader_epoch == 0
