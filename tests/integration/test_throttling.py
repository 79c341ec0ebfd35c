"""Throttling: slow and refused commits, and fetches that come back empty because of a quota."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import CommitFailed, CommitPaceBounded, Throttled
from ehkafka.testing import ApiKey
from tests.kit.events import Events
from tests.kit.faults.kafka_proxy import CommitPolicy, KafkaProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

PER_INTERVAL_RECORDS = 1_000
# The proxy sees a commit a moment after it was sent, and not always the same moment.
JITTER_S = 0.1
QUOTA_BYTES_PER_S = 100_000
FETCHES_PER_S_MAX = 10


def event_hubs(address: str) -> ehkafka.Endpoint:
    """Describe a broker here for which the engine takes the precautions of Event Hubs."""
    return dataclasses.replace(ehkafka.Endpoint.kafka(address), kind="event-hubs")


# Of a member that a busy machine may keep from its heartbeats for a while.
PATIENT_GROUP = {"session.timeout.ms": 20_000}
# Event Hubs takes no shorter sessions.
EVENT_HUBS_GROUP = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


def test_throttled_commits_hold_up_no_handler_and_keep_their_pace(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> None:
    """1.1 s a commit, more than 2 a second refused: one in flight, 1 s apart, handlers go on."""
    broker, proxy = far_kafka
    stage = stage_on(broker, 4)
    load, events = stage.load(), Events()
    done: list[int] = []
    app = stage.app(
        lambda record: done.append(record.offset()),
        endpoint=event_hubs(proxy.address),
        consumer=EVENT_HUBS_GROUP,
        commit_interval_s=0.1,
        commit_every_records=50,
    )
    app.add_hook(events)
    app.start()
    for turn in range(1, 4):
        if turn == 3:  # until then commits are quick, and nothing but our own pace keeps them apart
            proxy.policy = CommitPolicy(
                delay_s=1.1, per_s=2, excess_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS
            )
        before = len(proxy.commits)
        load.produce(PER_INTERVAL_RECORDS)
        wait_until(lambda turn=turn: len(done) == turn * PER_INTERVAL_RECORDS, "handled")
        wait_until(lambda before=before: len(proxy.commits) > before, "the next commit")
    proxy.hold_commits()
    wait_until(lambda: proxy.commits_in_flight == 1, "a commit that is held")
    sent = len(proxy.commits)
    load.produce(PER_INTERVAL_RECORDS)
    wait_until(lambda: len(done) == 4 * PER_INTERVAL_RECORDS, "handled while the commit is held")
    assert (proxy.commits_in_flight, len(proxy.commits)) == (1, sent)
    proxy.release_commits()
    stage.wait_until_committed(load.ends)
    wait_until(lambda: proxy.commits_in_flight == 0, "the last answer")
    assert proxy.most_commits_in_flight == 1
    assert proxy.least_commit_spacing_s >= 1.0 - JITTER_S
    # The latest wins: what finished during the held commit went into the next one.
    assert len(proxy.commits) == sent + 1
    assert not any(commit.excess for commit in proxy.commits)
    app.stop()
    assert events.of(CommitFailed) == []
    assert events.of(CommitPaceBounded) == [CommitPaceBounded(0.1, 50, 1.0)]
    stage.judged()


def test_row_24_a_throttled_fetch_is_no_proof_of_having_caught_up(
    stage_on: Callable[..., Any], far_kafka: tuple[KafkaBroker, KafkaProxy]
) -> None:
    """Fetches throttled by a real quota: few requests, no lag of 0, not idle, no eviction."""
    broker, proxy = far_kafka
    proxy.policy = CommitPolicy(delay_s=0.3)
    stage = stage_on(broker, 4)
    load, events = stage.load(), Events()
    idle: set[tuple[int, int | None]] = set()
    app = stage.app(
        endpoint=ehkafka.Endpoint.kafka(proxy.address),
        consumer={"client.id": stage.group, **PATIENT_GROUP},
        idle_s=0.3,
        commit_interval_s=0.3,
    )

    @app.on_idle
    def note_idle(partition: ehkafka.TopicPartition) -> None:
        watermarks = {each.partition: each.watermark for each in app.snapshot().partitions}
        idle.add((partition.partition, watermarks.get(partition)))

    app.add_hook(events)
    broker.set_quota(stage.group, fetch_bytes_per_s=QUOTA_BYTES_PER_S)
    for _ in range(30):  # in batches well below the quota: a larger one comes whole or not at all
        load.produce(100)
    began_s = time.monotonic()
    app.start()
    caught_up_early: list[Any] = []
    while (picture := app.snapshot()).finished_records < load.count:
        if picture.partitions and picture.received_records < load.count and picture.lag_records == 0:
            caught_up_early.append(picture)
        assert time.monotonic() - began_s < 60.0, picture
        time.sleep(0.002)
    took_s = time.monotonic() - began_s
    assert caught_up_early == []
    # The quota was felt, reported, thinned in the log alone, and summed up.
    assert events.of(Throttled)
    assert app.snapshot().throttled_s > 0.5
    fetches = [fetch for fetch in proxy.seen(ApiKey.FETCH) if fetch.sent_at_s < began_s + took_s]
    assert len(fetches) <= FETCHES_PER_S_MAX * took_s, f"{len(fetches)} in {took_s:.1f} s"
    stage.wait_until_committed(load.ends)
    # Each one at its own end, which some reach long before the others: a machine may be so slow that the
    # broker does not throttle for a while, and then a partition without more to come is idle.
    wait_until(lambda: {number for number, _ in idle} == load.ends.keys(), "idle once all is there")
    assert idle == set(load.ends.items())
    app.stop()
    stage.judged()
    assert app.snapshot().counters["PartitionAssigned"] == 4
    reported = sum(event.throttle_s for event in events.of(Throttled))
    assert app.snapshot().throttled_s == pytest.approx(reported)
