from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import UnfinishedError
from ehkafka.positions.finder import PositionFinder
from tests.kit.checker import history_event as events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

SESSION_S = 2.0
STOP_S = 3.0
# Longer than an app once asked before it ended.
AWAY_S = 8.0


def test_a_broker_outage_longer_than_the_session_is_survived(
    stage_on: Callable[..., Any], own_broker: KafkaBroker
) -> None:
    """The broker is killed under load and comes back after the session is over: all goes on by itself."""
    stage = stage_on(own_broker)
    load = stage.load(500.0)
    session = {"session.timeout.ms": int(SESSION_S * 1000)}
    members = [
        stage.member(
            f"member-{n}", "--handler-ms", "0-5", "--setting", "commit_interval_s=0.3", consumer=session
        )
        for n in range(2)
    ]
    for member in members:
        member.start()
    wait_until(lambda: [len(member.assigned()) for member in members] == [4, 4], stage.logs)
    load.start()
    time.sleep(1.0)
    own_broker.kill()
    time.sleep(1.5 * SESSION_S)
    own_broker.restart()
    time.sleep(1.0)
    load.stop()
    stage.wait_until_committed(load.ends, 60.0)
    stage.stop_members()
    assert stage.judged().processes == 2


def test_a_stop_without_a_broker_ends_in_time_and_says_so(
    stage_on: Callable[..., Any], own_broker: KafkaBroker
) -> None:
    """With the broker gone, a stop ends within its time; the commit that failed is reported."""
    stage = stage_on(own_broker)
    load = stage.load()
    load.produce(500)
    member = stage.member("member", "--setting", "commit_interval_s=60", "--setting", f"stop_s={STOP_S:g}")
    member.start()
    wait_until(lambda: member.count(events.Finished) == 500, stage.logs)
    own_broker.kill()
    member.terminate()
    try:
        member.wait(STOP_S + 20.0)
    finally:
        own_broker.restart()
    # By the log's own times: how long a busy machine takes to start and end a process is not the app's.
    took_s = _logged_at(member.log, "Stopped with exit code 4") - _logged_at(member.log, "Stopping (SIGTERM)")
    assert took_s.total_seconds() < STOP_S + 1.5, member.log_tail()
    assert member.count(events.CommitFailed)


def _logged_at(log: Path, text: str) -> datetime:
    """Return the time of the one log line that contains `text`."""
    (line,) = (line for line in log.read_text(errors="replace").splitlines() if text in line)
    return datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)


def test_a_broker_that_is_away_at_an_assignment_is_waited_for(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Health tells it, nothing ends, and what an earlier run finished above its commits is not repeated."""
    stage = stage_on(own_broker, 2)
    stage.load().put_all(*(b"key-%d" % number for number in range(200)))
    calls: Counter[tuple[int, int]] = Counter()
    gate, find = threading.Event(), PositionFinder.find

    def handle(record: Any) -> None:
        calls[record.partition(), record.offset()] += 1
        if record.offset() == 0:
            gate.wait(60.0)

    def find_once_it_is_away(*arguments: Any) -> Any:
        monkeypatch.setattr(PositionFinder, "find", find)
        own_broker.kill()
        return find(*arguments)

    # Else its absence costs the partitions first.
    settings: dict[str, Any] = {"exactly_once": True, "consumer": {"session.timeout.ms": 30_000}}
    first, second = (stage.app(handle, commit_interval_s=0.2, workers=8, **settings) for _ in range(2))
    first.start()
    wait_until(lambda: first.snapshot().finished_records == 198, "all but two are finished")
    with pytest.raises(UnfinishedError):
        first.stop(drain=False, timeout_s=3.0)
    gate.set()
    assert sorted(stage.committed().values()) == [0, 0]
    monkeypatch.setattr(PositionFinder, "find", find_once_it_is_away)
    second.start()
    began_s = time.monotonic()
    wait_until(lambda: "have waited for" in "".join(second.health().reasons), "it tells", 20.0)
    time.sleep(max(0.0, AWAY_S - (time.monotonic() - began_s)))
    own_broker.restart()
    wait_until(lambda: sum(filter(None, stage.committed().values())) == 200, "all is committed", 60.0)
    second.stop()
    assert sorted(calls.values()) == [1] * 198 + [2] * 2
