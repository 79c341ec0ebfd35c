"""Where a run of a consumer group begins and what it commits, on the embedded broker, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, GroupInUseError, OffsetGapError
from ehkafka.events import CommitFailed, ConnectionProblem, GroupReset, OffsetGap
from ehkafka.progress.committer import Committer
from ehkafka.progress.metadata import MOVED, LogFacts, encode
from ehkafka.run import resetting
from ehkafka.spark.engine.group.ownership import Tag
from ehkafka.spark.source.offsets import StreamOffset
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

from tests.spark.engine.group_runs import PARTITIONS, Runs


@pytest.mark.parametrize(
    ("metadata", "who"),
    [("", "a consumer"), (MOVED, "a consumer"), (Tag("c").text, r"another run on Spark \(c\)")],
)
def test_what_is_committed_while_a_run_begins_is_not_overwritten(
    runs: Runs, group_commits: Any, produced: Any, metadata: str, who: str
) -> None:
    """Who commits between a start's look at the group and its first commit keeps what was committed.

    The trap: records that a consumer finished while it left would be handled again, and those behind a
    rewind never.
    """
    produced(400)
    group_commits({0: (7, "")})
    run = runs.open()
    starts = run.begin()
    group_commits({0: (3, metadata), 1: (5, metadata)})
    where = r"t\[0\]: 7, now 3, t\[1\]: none, now 5"
    with pytest.raises(GroupInUseError, match=rf"by {who}.* read the commits \({where}\).*start again: the"):
        run.take(starts)
    assert group_commits() == {0: (3, metadata), 1: (5, metadata), 2: (-1001, ""), 3: (-1001, "")}
    assert list(runs.open().begin().values()) == [3, 5, 0, 0]


def test_what_is_committed_while_the_first_commit_is_tried_again_is_not_overwritten(
    runs: Runs, group_commits: Any, produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that loads keeps a start waiting for seconds, in which others may commit."""
    produced(400)
    commit_once = Committer.commit_once

    def refused_once(*_arguments: object) -> Any:
        monkeypatch.setattr(Committer, "commit_once", commit_once)
        group_commits(between)
        return KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), ()

    run = runs.open()
    starts = run.begin()
    between = {0: (0, Tag(run.run).text), 1: (0, "")}  # our own, whose answer was lost; and no change
    monkeypatch.setattr(Committer, "commit_once", refused_once)
    run.take(starts)
    assert run.keeps_tags
    assert run.commits.finish(10) == []
    run = runs.open()
    starts = run.begin()
    between = {1: (5, "")}
    monkeypatch.setattr(Committer, "commit_once", refused_once)
    with pytest.raises(GroupInUseError, match=r"t\[1\]: 0, now 5\)"):
        run.take(starts)
    assert group_commits()[1] == (5, "")


def test_a_begin_that_failed_half_way_can_be_made_again(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any
) -> None:
    """It leaves nothing that the next one would answer by: that one finds what the group has by then."""
    produced(400)
    group_commits({1: (3, "")})
    run = runs.open()
    broker.fail_next(ApiKey.LIST_OFFSETS, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 100)
    with pytest.raises(EndpointError):
        run.begin()
    broker.clear_failures(ApiKey.LIST_OFFSETS)
    group_commits({1: (5, ""), 2: (4, "")})
    assert list(run.begin().values()) == [0, 5, 4, 0]
    assert [commit.offset for commit in run.committed.values()] == [5, 4]


def test_a_partition_that_was_added_begins_with_its_log(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker
) -> None:
    """With start=latest, what a new partition got while nothing ran is not skipped."""
    for number in range(4):
        broker.produce("t", [(b"k", b"1")] * 3, partition=number)
    first = runs.open(start="latest")
    assert first.begin() == dict.fromkeys(PARTITIONS, 3)
    group_commits({0: (2, ""), 1: (3, ""), 2: (3, "")})
    assert runs.open(start="latest").begin()[PARTITIONS[3]] == 0


def test_a_commit_beyond_its_log_is_settled_at_the_start(
    runs: Runs, group_commits: Any, produced: Any, lab: Any
) -> None:
    """A topic recreated: one error that says what to do, or its beginning, as on_out_of_range says."""
    produced(8)
    group_commits({1: (500, "")})
    run = runs.open()
    with pytest.raises(
        OffsetGapError, match=r"t\[1\].*500.*recreated.*offsets reset.*'earliest'\.$"
    ) as reported:
        run.take(run.begin())
    assert "latest" not in str(reported.value)
    run = runs.open(on_out_of_range="earliest")
    assert run.take(run.begin())[PARTITIONS[1]] == 0
    assert group_commits()[1][0] == 0
    gaps = lab.wait_until(lambda: [one for one in runs.events if isinstance(one, OffsetGap)][1:])
    assert (gaps[0].wanted_offset, gaps[0].action, gaps[0].resumed_at) == (500, "earliest", 0)


def test_a_log_that_was_made_anew_under_a_run_is_committed_from_its_beginning(
    runs: Runs, group_commits: Any, produced: Any
) -> None:
    """The group goes back with the query, instead of waiting until the new log is as long as the old one."""
    produced(400)
    run = runs.begin()
    run.commits.note(StreamOffset({PARTITIONS[0]: 9, PARTITIONS[1]: 6}), {})
    run.commits.note(StreamOffset({PARTITIONS[0]: 2, PARTITIONS[1]: 6}), {})
    run.commits.note(StreamOffset(), None)  # a progress without an end
    assert run.commits.finish(10) == []
    assert [offset for offset, _ in group_commits().values()] == [2, 6, 0, 0]


def test_commits_that_are_denied_are_reported_as_such(
    runs: Runs, broker: EmbeddedBroker, produced: Any, lab: Any
) -> None:
    """A right that is missing is no group in use: the error says which right, at the start and later."""
    produced(8)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.GROUP_AUTHORIZATION_FAILED)
    run = runs.open()
    with pytest.raises(EndpointError, match=r"refuses commits of this app.*ACL for READ on the group$"):
        run.take(run.begin())
    run = runs.begin()
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    run.commits.note(StreamOffset({PARTITIONS[0]: 1}), {})

    def lost() -> Any:
        run.serve(0.05)
        return run.commits.lost()

    shown = str(lab.wait_until(lost))
    assert "refuses commits of this app" in shown
    assert "in use" not in shown
    assert run.commits.finish(5) == [PARTITIONS[0]]


def test_a_broker_that_does_not_answer_for_a_while_ends_nothing(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any, lab: Any
) -> None:
    """Neither a look nor a commit that fails is a loss: both are tried again, and the commit is made."""
    produced(400)
    run = runs.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, KafkaError.GROUP_AUTHORIZATION_FAILED)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.INVALID_COMMIT_OFFSET_SIZE, KafkaError.UNKNOWN)
    run.commits.note(StreamOffset({PARTITIONS[3]: 5}), {})
    failed = (ConnectionProblem, CommitFailed)

    def is_committed() -> bool:
        run.serve(0.05)
        assert run.commits.lost() is None
        reported = {type(one) for one in runs.events if isinstance(one, failed)}
        return len(reported) == 2 and run.commits.problem is None

    lab.wait_until(is_committed)
    assert group_commits()[3] == (5, Tag(run.run).text)


@pytest.mark.parametrize("why", ["refused", "too long"])
def test_a_run_without_room_for_its_tag_commits_without(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any, metadata_room: Any, why: str
) -> None:
    """A broker that takes no metadata prevents no run: offsets alone are compared then.

    Where there is no room it is not even tried, in the first commit nor in the last.
    """
    produced(8)
    if why == "refused":
        broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE)
    else:
        metadata_room(0)
    run = runs.open()
    run.take(run.begin())
    assert not run.keeps_tags
    run.commits.note(StreamOffset({PARTITIONS[0]: 1}), {})
    assert run.commits.finish(10) == []
    assert group_commits() == {0: (1, ""), 1: (0, ""), 2: (0, ""), 3: (0, "")}


def test_metadata_that_is_refused_though_there_is_none_ends_the_start(
    runs: Runs, broker: EmbeddedBroker, produced: Any
) -> None:
    """A broker that refuses metadata which was not sent is asked twice, not for ever, and then named."""
    produced(8)
    run = runs.open()
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_COMMIT, *[KafkaError.OFFSET_METADATA_TOO_LARGE] * 100)
    broker.track_requests()
    with pytest.raises(EndpointError, match=r"could not be committed: OFFSET_METADATA_TOO_LARGE.*again\.$"):
        run.take(starts)
    assert len(broker.requests(ApiKey.OFFSET_COMMIT)) == 2


def test_what_was_finished_above_a_commit_is_not_passed_over_later(
    runs: Runs, group_commits: Any, produced: Any
) -> None:
    """A consumer that crashed left ranges above its commit: Spark begins at the commit, and drops them."""
    produced(400)
    ranges = encode(2, LogFacts(), ((4, 6),), None, 1_000).text
    group_commits({0: (2, ranges or "")})
    run = runs.begin()
    assert run.commits.finish(10) == []
    assert group_commits()[0] == (2, Tag(run.run).text)


def test_a_run_goes_on_after_the_reset_of_its_name(
    runs: Runs, group_commits: Any, produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run begins at `start` although the group has a commit, the second where that one ended."""
    monkeypatch.setattr(resetting, "SETTLE_S", 0.1)
    produced(400)
    group_commits({1: (4, "")})
    begun = []
    for _ in range(2):
        run = runs.open(reset="june")
        run.reset()
        starts = run.begin()
        begun.append(starts[PARTITIONS[1]])
        run.take(starts)
        run.commits.note(StreamOffset({PARTITIONS[1]: 6}), {})
        assert run.commits.finish(5.0) == []
    assert begun == [0, 6]
    wait_until(lambda: [event.once_as for event in runs.events.of(GroupReset)] == ["june"])
