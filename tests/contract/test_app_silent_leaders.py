"""While a broker is away at an assignment, the partitions that need it wait; nothing else does or ends.

Three embedded brokers: 1 coordinates the group and leads partitions 0 and 1 of `t4`, 2 and 3 lead one each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError

from ehkafka.errors import EndpointError, UnfinishedError
from ehkafka.events import PartitionAssigned, PartitionsWaiting
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.records import TopicPartition
from ehkafka.testing import ApiKey
from tests.contract.conftest import FAST_GROUP, TOPICS, Lab, ends_with, judged
from tests.contract.mirrored import commit
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The client tells of its leaders by its statistics, else every 2.5 s.
KNOWS_ITS_LEADERS = FAST_GROUP | {"statistics.interval.ms": 100}
ASSIGNORS = pytest.mark.parametrize("assignor", ["default", "cooperative-sticky"])
LEADERS = (1, 1, 2, 3)


@pytest.fixture
def three(embedded_broker_factory: Callable[..., Any]) -> Iterator[Lab]:
    """Return a lab on three brokers, with two records in each partition."""
    broker = embedded_broker_factory(TOPICS, brokers=3)
    broker.set_coordinator("g", 1)
    for partition, leader in enumerate(LEADERS):
        broker.move_leader("t4", partition, leader)
    with judged(broker) as lab:
        for partition in range(4):
            lab.produce("a b", topic="t4", partition=partition)
        yield lab


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no question wait for a silent broker for seconds."""
    monkeypatch.setattr("ehkafka.positions.finder.LOOKUP_TIMEOUT_S", 0.5)
    monkeypatch.setattr("ehkafka.positions.restore.BOUNDS_TIMEOUT_S", 0.5)
    monkeypatch.setattr("ehkafka.positions.log_asker.LOGS_S", 0.5)


@ASSIGNORS
def test_a_broker_that_is_away_at_the_start_keeps_its_partitions_alone(
    three: Lab, recorder: Any, events: Any, assignor: Any
) -> None:
    """Others begin; health says which wait, and why; a second member joins and leaves meanwhile."""
    three.broker.take_down(2)
    apps = [
        three.app(recorder, "t4", start="latest", assignor=assignor, consumer=KNOWS_ITS_LEADERS)
        for _ in range(2)
    ]
    apps[0].add_hook(events)
    apps[0].start()
    wait_until(lambda: {e.partition.partition for e in events.of(PartitionAssigned)} >= {0, 1, 3})
    assert events.of(PartitionsWaiting)[0].partitions
    [reason] = apps[0].health().reasons
    assert "t4[2] wait" in reason or "t4[2] has waited for " in reason
    assert "the broker does not report where the log begins and ends: " in reason
    assert apps[0].current_run.not_ready() == ()
    for partition in (0, 1, 3):
        three.produce("c", topic="t4", partition=partition)
    wait_until(lambda: [three.committed(n, topic="t4") for n in range(4)] == [3, 3, None, 3])
    apps[1].start()
    wait_until(lambda: [len(app.snapshot().partitions) for app in apps] == [2, 2])
    apps[1].stop()
    wait_until(lambda: len(apps[0].snapshot().partitions) == 4)
    must_stay(lambda: three.committed(2, topic="t4") is None, for_s=0.5)
    three.broker.bring_up(2)
    wait_until(lambda: three.committed(2, topic="t4") == 2)
    assert apps[0].health().ok, apps[0].health().reasons
    apps[0].stop()
    assert [recorder.offsets(number, "t4") for number in range(4)] == [[2], [2], [], [2]]


def test_what_an_earlier_run_finished_is_not_repeated_where_its_leader_is_away(three: Lab) -> None:
    """The commit's ranges count once the end of the log is known; until then the partition waits."""
    first, second = three.recorder(), three.recorder()
    gate = first.block(lambda record: record.partition() == 2 and record.offset() == 0)
    options = {"consumer": KNOWS_ITS_LEADERS, "workers": 4}
    app = three.start(first, "t4", **options)
    wait_until(lambda: three.committed(2, topic="t4") == 0 and first.finished_offsets(2, "t4") == [1])
    wait_until(lambda: [three.committed(n, topic="t4") for n in (0, 1, 3)] == [2] * 3)
    with pytest.raises(UnfinishedError):
        app.stop(drain=False, timeout_s=0.5)
    gate.set()
    three.broker.take_down(2)
    app = three.start(second, "t4", **options)
    wait_until(lambda: len(app.snapshot().partitions) == 4)
    must_stay(lambda: second.count == 0, for_s=1.0)
    assert "t4[2]" in app.health().reasons[0]
    three.broker.bring_up(2)
    wait_until(lambda: three.committed(2, topic="t4") == 2)
    app.stop()
    assert second.offsets(2, "t4") == [0]


def test_a_leader_that_refuses_while_it_moves_ends_nothing(lab: Any, recorder: Any) -> None:
    """However often: more than the seven tries after which an app once ended."""
    lab.produce("a b c")
    lab.broker.fail_next(ApiKey.LIST_OFFSETS, *[KafkaError.FENCED_LEADER_EPOCH] * 16)
    app = lab.start(recorder, start="latest")
    wait_until(lambda: app.health().reasons)
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    assert recorder.count == 0


def test_a_stop_does_not_wait_for_what_waits(three: Lab, recorder: Any) -> None:
    """Nothing of it has begun, so nothing is left of it."""
    three.broker.take_down(2)
    app = three.start(recorder, "t4", start="latest", consumer=KNOWS_ITS_LEADERS)
    wait_until(lambda: three.committed(3, topic="t4") == 2)
    app.stop(timeout_s=5.0)
    assert three.committed(2, topic="t4") is None


def test_a_broker_that_refuses_access_ends_the_app(lab: Any, recorder: Any) -> None:
    """Waiting cures nothing of it."""
    lab.broker.fail_next(ApiKey.LIST_OFFSETS, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 40)
    app = lab.start(recorder, start="latest")
    ended = ends_with(app, EndpointError, "refuses access")
    assert ended.exit_code == 3


def test_where_a_log_ends_is_known_as_soon_as_another_broker_leads_it(three: Lab) -> None:
    """The client that asks for it reads nothing, so nothing else has it learn of a new leader for minutes."""
    properties = {"group.id": "asks", "log_level": 0, "enable.auto.commit": False}

    def open_consumer() -> Consumer:
        return Consumer({**three.broker.consumer_properties, **properties})

    asker, moving = LogAsker(TopicIds(None), open_consumer), TopicPartition("t4", 2)

    def ends() -> dict[TopicPartition, int]:
        question = asker.read_logs([[moving]])
        assert question.done.wait(10.0)
        return {partition: log.end for partition, log in question.answer.logs.items()}

    try:
        wait_until(ends)
        three.broker.take_down(2)
        wait_until(lambda: not ends())
        three.broker.move_leader("t4", 2, 3)
        wait_until(lambda: ends() == {moving: 2}, "the new leader's answer", 10.0)
    finally:
        asker.stop()


@pytest.mark.parametrize("has_commit", [True, False])
def test_a_run_until_caught_up_names_a_partition_whose_leader_is_dead(
    three: Lab, recorder: Any, monkeypatch: pytest.MonkeyPatch, has_commit: bool
) -> None:
    """Where it ends is not known, or where it begins: all else is done, and then the run does not wait on."""
    monkeypatch.setattr("ehkafka.intake.caught_up.UNKNOWN_S", 2.0)
    if has_commit:
        commit(three, 1, topic="t4", partition=2)
    three.broker.take_down(2)
    app = three.app(recorder, "t4", start="latest" if not has_commit else "earliest")
    with pytest.raises(UnfinishedError, match=r"t4\[2\] \(the broker does not report where") as raised:
        app.run(until="caught_up", settle_s=2.0)
    assert raised.value.exit_code == 4
    done = [three.committed(number, topic="t4") for number in range(4)]
    assert done == [2, 2, 1 if has_commit else None, 2]
