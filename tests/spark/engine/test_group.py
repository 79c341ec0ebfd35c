"""A run's consumer group on the embedded broker, without Spark: who else is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, GroupInUseError
from ehkafka.progress.metadata import MOVED
from ehkafka.spark.engine.group.group import give_back, reserve
from ehkafka.spark.engine.group.ownership import Tag
from ehkafka.spark.source.offsets import StreamOffset

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

from tests.spark.engine.group_runs import PARTITIONS, Runs


@pytest.mark.parametrize("reads", [0, 1])
def test_a_broker_that_cannot_be_read_does_not_keep_tags(
    runs: Runs, broker: EmbeddedBroker, produced: Any, reads: int, metadata_room: Any
) -> None:
    """What the broker gives back is read until it is known; where no tag is written none is kept."""
    produced(8)
    run = runs.open(connect_s=2.0)
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, *[0] * reads, *[KafkaError.GROUP_AUTHORIZATION_FAILED] * 100)
    with pytest.raises(EndpointError, match="did not return the group's commits in time"):
        run.take(starts)
    broker.clear_failures(ApiKey.OFFSET_FETCH)
    metadata_room(0)
    run = runs.open()
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, KafkaError.GROUP_AUTHORIZATION_FAILED)
    run.take(starts)
    assert not run.keeps_tags


def test_the_last_commit_waits_for_a_slow_broker(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any
) -> None:
    """The look before it has half of the time, and the commit the other half."""
    produced(400)
    run = runs.begin()
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    broker.delay_next(ApiKey.OFFSET_FETCH, 1.0, times=100)
    assert run.commits.finish(4) == []
    assert group_commits()[0][0] == 7


@pytest.mark.parametrize("is_soon", [True, False])
def test_no_client_is_closed_while_its_last_commit_has_no_answer(
    runs: Runs,
    broker: EmbeddedBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_soon: bool,
) -> None:
    """Its `close` waits for a late answer, with a bound; then the client is left."""
    run = runs.begin()
    monkeypatch.setattr("ehkafka.spark.engine.group.group.ANSWER_S", 60.0 if is_soon else 0.01)
    client = run._consumer
    assert client is not None
    broker.delay_next(ApiKey.OFFSET_COMMIT, 1.5, times=1)
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    assert run.commits.finish(0.5)
    run.close(deadline_s=0.0)
    assert ("is not closed" in caplog.text) is not is_soon
    if is_soon:
        with pytest.raises(RuntimeError, match="closed"):
            client.consume(1, 0.0)


def test_after_a_run_that_died_the_next_one_goes_on(runs: Runs, group_commits: Any, produced: Any) -> None:
    """A run that was killed keeps no other one from the group, and its late commit is not believed."""
    produced(400)
    dead = Tag("dead-1-aa")
    group_commits({0: (3, dead.text)})
    run = runs.begin()
    assert run.committed[PARTITIONS[0]].offset == 3
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    group_commits({0: (5, dead.text)})
    assert run.commits.finish(10) == []
    assert group_commits() == {0: (7, Tag(run.run).text), **dict.fromkeys((1, 2, 3), (0, Tag(run.run).text))}


def test_a_second_run_takes_the_group_and_ends_the_first(
    runs: Runs, group_commits: Any, produced: Any, lab: Any
) -> None:
    """The run that began last goes on; the first one names it, and commits nothing over it."""
    produced(400)
    first = runs.begin()
    first.commits.note(StreamOffset({PARTITIONS[0]: 9}), {})
    second = runs.begin()
    runs.serve(second)

    def lost() -> Any:
        first.serve(0.05)
        return first.commits.lost()

    assert f"another run on Spark ({second.run})" in str(lab.wait_until(lost))
    assert first.commits.finish(5) == []
    assert group_commits() == dict.fromkeys(range(4), (0, Tag(second.run).text))
    assert second.commits.lost() is None


def test_a_reset_under_a_run_ends_it_and_is_not_undone(
    runs: Runs, group_commits: Any, produced: Any, lab: Any
) -> None:
    """What an operator or a tool commits while Spark has the group is noticed before the next commit."""
    produced(400)
    run = runs.begin()
    group_commits({2: (1, MOVED)})
    run.commits.note(StreamOffset({PARTITIONS[2]: 8}), {})

    def lost() -> Any:
        run.serve(0.05)
        return run.commits.lost()

    shown = str(lab.wait_until(lost))
    assert "read the commits (t[2]: 0, now 1)" in shown
    assert "new_checkpoint" in shown
    assert run.commits.finish(5) == []
    assert group_commits()[2] == (1, MOVED)


def test_this_process_refuses_a_second_run_at_once() -> None:
    """A program that starts the same app twice hears so; another topic of the group is another matter."""
    reserve("broker", "g", ["t", "u"], "run-1")
    with pytest.raises(GroupInUseError, match=r"runs it on Spark already \(topic 'u', run run-1\)"):
        reserve("broker", "g", ["u", "v"], "run-2")
    reserve("broker", "g", ["v"], "run-2")
    give_back("run-3")  # it has none
    with pytest.raises(GroupInUseError, match="run run-1"):
        reserve("broker", "g", ["u"], "run-3")
    give_back("run-1")
    reserve("broker", "g", ["u"], "run-3")
    for run in ("run-2", "run-3"):
        give_back(run)
