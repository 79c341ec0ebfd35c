from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from ehkafka.errors import EhkafkaError
from ehkafka.testing.checker import history_event as events
from ehkafka.testing.kafka.broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

SESSION_S = 2.0
STOP_S = 3.0


@pytest.fixture(scope="module")
def own_broker(without_broker: Callable[[EhkafkaError], NoReturn]) -> Iterator[KafkaBroker]:
    """Run a broker that a test may kill."""
    broker = KafkaBroker()
    try:
        broker.start()
    except EhkafkaError as error:
        without_broker(error)
    yield broker
    broker.stop()


def test_a_broker_outage_longer_than_the_session_is_survived(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, eventually: Callable[..., None]
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
    eventually(lambda: [len(member.assigned()) for member in members] == [4, 4], stage.logs)
    load.start()
    time.sleep(1.0)
    own_broker.kill()
    time.sleep(1.5 * SESSION_S)
    own_broker.restart()
    time.sleep(1.0)
    load.stop()
    stage.wait_until_committed(load.ends, 60.0)
    for member in members:
        member.terminate()
    assert [member.wait(15.0) for member in members] == [0, 0], stage.logs()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.processes == 2


def test_a_stop_without_a_broker_ends_in_time_and_says_so(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, eventually: Callable[..., None]
) -> None:
    """With the broker gone, a stop ends within its time; the commit that failed is reported."""
    stage = stage_on(own_broker)
    load = stage.load()
    load.produce(500)
    member = stage.member("member", "--setting", "commit_interval_s=60", "--setting", f"stop_s={STOP_S:g}")
    member.start()
    eventually(lambda: finished(member) == 500, stage.logs)
    own_broker.kill()
    began_s = time.monotonic()
    member.terminate()
    try:
        member.wait(STOP_S + 10.0)
        took_s = time.monotonic() - began_s
    finally:
        own_broker.restart()
    assert took_s < STOP_S + 1.5, f"{took_s:.1f} s\n{member.log_tail()}"
    assert [event for event in member.events() if isinstance(event, events.CommitFailed)]


def finished(member: Any) -> int:
    """Return how many records a member has finished."""
    return sum(isinstance(event, events.Finished) for event in member.events())
