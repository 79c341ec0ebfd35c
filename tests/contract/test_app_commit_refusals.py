"""Commits that the broker refuses: tried again, rejoined, or the end of the app."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import (
    AppStopped,
    AppStopping,
    CommitFailed,
    PartitionAssigned,
    PartitionLost,
    RecordsLeft,
)
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.mirrored import commit_of, finished_in
from tests.kit.waiting import wait_until


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.INVALID_COMMIT_OFFSET_SIZE,
        KafkaError.UNKNOWN,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_COORDINATOR,
        KafkaError._TRANSPORT,
    ],
)
def test_a_failed_commit_is_tried_again_and_counts_for_nothing_before(
    lab: Any, recorder: Any, events: Any, code: int
) -> None:
    """Two refusals: nothing counts as committed until the third try; the app goes on."""
    app = lab.start(recorder)
    wait_until(lambda: len(app.snapshot().partitions) == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, code, code)
    lab.produce("a b c")
    wait_until(lambda: app.snapshot().partitions and app.snapshot().partitions[0].committed == 3)
    assert lab.committed() == 3
    lab.produce("a b c")
    wait_until(lambda: lab.committed() == 6)
    # A group that moves may cost the member its short session here, and then a repeat.
    assert set(recorder.offsets()) == {0, 1, 2, 3, 4, 5}
    wait_until(lambda: app.health().ok)


def test_health_is_red_with_the_brokers_words_while_commits_fail(
    lab: Any, recorder: Any, events: Any
) -> None:
    """The reason names the error; nothing counts as committed; a later success turns it green."""
    app = lab.start(recorder)
    wait_until(lambda: len(app.snapshot().partitions) == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.INVALID_COMMIT_OFFSET_SIZE] * 50)
    lab.produce("a b c")
    wait_until(lambda: len(events.of(CommitFailed)) >= 2)
    (reason,) = app.health().reasons
    assert "INVALID_COMMIT_OFFSET_SIZE" in reason
    # The start may have committed its position before the broker refused.
    assert app.snapshot().partitions[0].committed in {None, 0}
    assert all(failed.retriable for failed in events.of(CommitFailed))
    lab.broker.clear_failures(ApiKey.OFFSET_COMMIT)
    wait_until(lambda: app.health().ok)
    assert lab.committed() == 3


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION])
def test_a_member_that_the_group_forgot_rejoins_and_goes_on(
    lab: Any, recorder: Any, events: Any, code: int
) -> None:
    """The commit is not acknowledged, the member joins again, and the records are committed then."""
    app = lab.start(recorder)
    wait_until(lambda: lab.committed() == 0)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, code)
    lab.produce("a b c")
    wait_until(lambda: events.of(CommitFailed))
    # Where the group rebalances, the next generation takes the commit.
    assert events.of(CommitFailed)[0].retriable == (code == KafkaError.ILLEGAL_GENERATION)
    wait_until(lambda: len(events.of(PartitionAssigned)) == 2)
    (lost,) = events.of(PartitionLost)
    assert "the group continued without this member" in lost.sentence()
    lab.produce("d")
    wait_until(lambda: lab.committed() == 4)
    wait_until(lambda: app.health().ok)
    app.stop()  # without an error: what was repeated before it is committed


def test_a_stop_while_the_group_rebalances_commits_under_the_next_generation(
    lab: Any, recorder: Any, events: Any
) -> None:
    """Partitions stay assigned meanwhile. What a stop commits then is refused until the member has joined."""
    app = lab.start(recorder, assignor="cooperative-sticky", commit_interval_s=60.0)
    wait_until(lambda: len(app.snapshot().partitions) == 1)
    lab.produce("a b c")
    wait_until(lambda: recorder.count == 3)
    lab.broker.track_requests()
    lab.broker.delay_next(ApiKey.JOIN_GROUP, 1.0)
    lab.broker.fail_next(ApiKey.HEARTBEAT, KafkaError.REBALANCE_IN_PROGRESS)
    wait_until(lambda: lab.broker.requests(ApiKey.JOIN_GROUP))
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.ILLEGAL_GENERATION)
    app.stop()
    # The group's own refusal may come as well.
    assert all(failed.retriable for failed in events.of(CommitFailed))
    assert events.of(CommitFailed)
    assert lab.committed() == 3
    assert [event.exit_code for event in events.of(AppStopped)] == [0]


@pytest.mark.parametrize(
    "code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED]
)
def test_what_waiting_does_not_fix_stops_the_app(lab: Any, recorder: Any, code: int) -> None:
    """A commit is denied: the app ends with an error that says what to do."""
    app = lab.start(recorder)
    wait_until(lambda: len(app.snapshot().partitions) == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[code] * 20)
    lab.produce("a b c")
    assert ends_with(app, ehkafka.errors.EndpointError, KafkaError(code).name()).exit_code == 3
    assert not app.health()


def test_a_fenced_member_stops_and_says_what_to_do(lab: Any, program: Any) -> None:
    """Exit code 5; in a process of its own, because librdkafka's close never ends after a fatal error."""
    started = program(
        """
        app.handler("t")(lambda record: say("handled", record.offset()))
        app.on_assigned(lambda partition: say("assigned"))
        run()
        """
    )
    wait_until(lambda: started.printed("assigned"))
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.FENCED_INSTANCE_ID] * 20)
    lab.produce("a")
    assert started.wait(10.0) == 5
    assert started.printed("ERROR FencedError")
    assert started.printed("give each process its own")


def test_metadata_that_the_broker_finds_too_large_is_left_out(lab: Any, recorder: Any, events: Any) -> None:
    """The refusal costs the metadata, not the commit: it goes again at once, whatever the interval."""
    first, gate = recorder.block(b"first"), recorder.block(b"slow")
    app = lab.start(recorder, commit_interval_s=60.0, commit_every_records=1)
    lab.produce("first slow b")
    wait_until(lambda: finished_in(lab))
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE)
    first.set()
    wait_until(lambda: lab.committed() == 1)
    assert commit_of(lab) == (1, "")
    assert [failed.retriable for failed in events.of(CommitFailed)] == [True]
    assert app.health().ok
    gate.set()
    wait_until(lambda: lab.committed() == 3)


def test_a_stop_tells_that_the_commit_of_a_partition_revoked_meanwhile_failed(
    lab: Any, recorder: Any, events: Any
) -> None:
    """The group moves while the stop drains, and refuses what was finished: the next owner repeats it."""
    app = lab.start(recorder, commit_interval_s=60.0, drain_s=0.2)
    wait_until(lambda: lab.committed() == 0)
    gate = recorder.block(b"b")
    lab.produce("a b")
    wait_until(lambda: len(recorder.started) == 2 and len(recorder.finished) == 1)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.REBALANCE_IN_PROGRESS] * 50)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(app.stop, timeout_s=10.0)
        lab.start(lambda _record: None)
        wait_until(lambda: app.snapshot().counters["PartitionRevoked"])
        gate.set()
        with pytest.raises(ehkafka.errors.UnfinishedError, match=r"last commit of t\[0\] failed"):
            stopping.result(20.0)
    assert events.of(RecordsLeft) == []  # which would say that no finished record is handled again


def test_a_stop_tells_that_a_partition_was_lost_before_its_last_commit(
    lab: Any, recorder: Any, events: Any
) -> None:
    """The group forgets the member while the stop drains, so what was finished is handled again."""
    gate = recorder.block(b"slow")
    app = lab.start_without_commits(recorder)
    lab.produce("a slow")
    wait_until(lambda: recorder.count == 1 and len(recorder.started) == 2)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(app.stop, timeout_s=10.0)
        wait_until(lambda: events.of(AppStopping))
        lab.broker.fail_next(ApiKey.HEARTBEAT, KafkaError.UNKNOWN_MEMBER_ID)
        wait_until(lambda: events.of(PartitionLost))
        gate.set()
        words = r"last commit of t\[0\] failed \(the group continued without this member\)"
        with pytest.raises(ehkafka.errors.UnfinishedError, match=words):
            stopping.result(20.0)
