"""A run's consumer group on the embedded broker, without Spark: who else is there."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, GroupInUseError
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.metadata import MOVED
from ehkafka.spark.engine.group import commits
from ehkafka.spark.engine.group import ownership as ownership_module
from ehkafka.spark.engine.group.marks import Mark
from ehkafka.spark.engine.group.reservation import give_back, reserve
from ehkafka.spark.source.offsets import StreamOffset

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

from tests.spark.engine.group_runs import PARTITIONS, Runs


def test_a_second_run_is_refused_and_the_first_goes_on(
    runs: Runs, group_commits: Any, produced: Any, lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever begins while another run lives hears its name; the one that runs loses nothing."""
    produced(400)
    first = runs.begin()
    runs.serve(first)
    second = runs.open()
    starts = second.begin()
    with pytest.raises(GroupInUseError, match=rf"another run on Spark, {first.run}.*this one, {second.run}"):
        second.claim(starts)
    assert first.commits.lost() is None
    first.commits.note(StreamOffset(dict.fromkeys(PARTITIONS, 5)), {})
    mark = Mark(first.run).text
    lab.wait_until(lambda: group_commits() == dict.fromkeys(range(4), (5, mark)))
    assert f"another run on Spark, {second.run}, has begun with it" in caplog.text


@pytest.mark.parametrize("codes", [(), (0, KafkaError.INVALID_COMMIT_OFFSET_SIZE)])
def test_a_run_that_commits_rarely_answers_at_once(
    runs: Runs,
    group_commits: Any,
    broker: EmbeddedBroker,
    produced: Any,
    monkeypatch: pytest.MonkeyPatch,
    codes: tuple[int, ...],
) -> None:
    """Neither a long interval nor a commit that fails keeps the mark from being put back in time."""
    produced(400)
    monkeypatch.setattr(commits, "SETTLE_S", 20.0)
    first = runs.begin(commit_interval_s=60)
    second = runs.open()
    starts = second.begin()
    runs.serve(first)
    if codes:
        broker.fail_next(ApiKey.OFFSET_COMMIT, *codes)
    with pytest.raises(GroupInUseError, match=rf"another run on Spark, {first.run}"):
        second.claim(starts)
    assert first.commits.lost() is None
    assert group_commits()[0] == (0, Mark(first.run).text)


def test_a_look_that_failed_is_no_silence(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who cannot read whether another run answers takes nothing over, and goes on when it can."""
    produced(400)
    monkeypatch.setattr(commits, "SETTLE_S", 0.3)
    group_commits({0: (3, Mark("dead-1-aa").text)})
    run = runs.open(connect_s=3.0)
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, 0, 0, *[KafkaError.GROUP_AUTHORIZATION_FAILED] * 100)
    with pytest.raises(EndpointError, match=r"whether another run has it.*start again\.$"):
        run.claim(starts)
    broker.clear_failures(ApiKey.OFFSET_FETCH)
    run = runs.open(connect_s=10.0)
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, 0, 0, *[KafkaError.GROUP_AUTHORIZATION_FAILED] * 3)
    assert run.claim(starts).keeps_marks


@pytest.mark.parametrize("reads", [0, 1])
def test_a_broker_that_cannot_be_read_does_not_keep_marks(
    runs: Runs, broker: EmbeddedBroker, produced: Any, reads: int
) -> None:
    """What the broker gives back is read until it is known; where no mark is written none is kept."""
    produced(8)
    run = runs.open(connect_s=2.0)
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, *[0] * reads, *[KafkaError.GROUP_AUTHORIZATION_FAILED] * 100)
    with pytest.raises(EndpointError, match="could not be read from the broker in time"):
        run.claim(starts)
    broker.clear_failures(ApiKey.OFFSET_FETCH)
    run = runs.open(commit_metadata_bytes_max=0)
    starts = run.begin()
    broker.fail_next(ApiKey.OFFSET_FETCH, KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert not run.claim(starts).keeps_marks


def test_the_last_commit_waits_for_a_slow_broker(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that needs longer for an answer than a look may take by default gets its last commit."""
    produced(400)
    run = runs.begin()
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    for module in (commits, ownership_module):
        monkeypatch.setattr(module, "CHECK_TIMEOUT_S", 0.2)
    broker.delay_next(ApiKey.OFFSET_FETCH, 1.0, times=100)
    assert run.commits.finish(20) == []
    assert group_commits()[0][0] == 7


@pytest.mark.parametrize("is_soon", [True, False])
def test_no_client_is_closed_while_its_last_commit_is_inside(
    runs: Runs,
    broker: EmbeddedBroker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_soon: bool,
) -> None:
    """One thread at a time: a late answer is waited for, with a bound; then the client is left."""
    run = runs.begin()
    monkeypatch.setattr("ehkafka.spark.engine.group.group.ANSWER_S", 60.0 if is_soon else 0.01)
    client, inside = run._consumer, list[bool]()
    assert client is not None

    def is_inside() -> bool:
        return "ehkafka-final-commit" in [thread.name for thread in threading.enumerate()]

    spy = SimpleNamespace(
        commit=client.commit,
        committed=client.committed,
        consume=lambda *_: inside.append(is_inside()),
        close=lambda: inside.append(is_inside()),
    )
    monkeypatch.setattr(run, "_consumer", spy)
    monkeypatch.setattr(run.commits, "_consumer", spy)
    broker.delay_next(ApiKey.OFFSET_COMMIT, 1.5, times=1)
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    assert run.commits.finish(0.5)
    run.close(deadline_s=0.0)
    assert inside == ([False] if is_soon else [])
    assert ("is not closed" in caplog.text) is not is_soon
    run._context.committer.await_answer(60.0)
    monkeypatch.setattr(run, "_consumer", client)


def test_a_look_that_failed_gives_the_next_one_longer() -> None:
    """A broker that is slow for long is waited for, within bounds; one that answers is asked as before."""
    timeouts_s = []
    is_up = False

    def committed(partitions: list[Any], timeout: float) -> list[Any]:
        timeouts_s.append(timeout)
        if is_up:
            return []
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "slow"))

    ledger = CommitLedger(CommitPacing())
    ours = {PARTITIONS[0]: Position(1, 5)}
    ledger.assigned(PARTITIONS[0], 1, ours[PARTITIONS[0]])
    held = ownership_module.GroupWatch(Mark("r"), [], "The group 'g'", lambda _event: None)
    consumer: Any = SimpleNamespace(committed=committed)
    for _ in range(4):
        assert held.check(consumer, ledger, ours) is None
    is_up = True
    held.check(consumer, ledger, ours)
    held.check(consumer, ledger, ours)
    assert timeouts_s == [3, 6, 12, 12, 12, 3]


def test_after_a_run_that_died_the_next_one_goes_on(runs: Runs, group_commits: Any, produced: Any) -> None:
    """Nobody answers to the mark of a run that was killed; one that ended in good order is not waited for."""
    produced(400)
    dead = Mark("dead-1-aa")
    group_commits({0: (3, dead.text)})
    run = runs.begin()
    assert run.committed[PARTITIONS[0]].offset == 3
    run.commits.note(StreamOffset({PARTITIONS[0]: 7}), {})
    assert run.commits.finish(10) == []
    ended = Mark(run.run, has_ended=True)
    assert group_commits()[0] == (7, ended.text)
    assert group_commits()[1] == (0, ended.text)


def test_a_run_that_slept_gives_way_to_the_one_that_took_over(
    runs: Runs, group_commits: Any, produced: Any, monkeypatch: pytest.MonkeyPatch, lab: Any
) -> None:
    """A driver that stood still while another one began ends when it wakes, and commits nothing over it."""
    produced(400)
    slept = runs.begin()
    slept.commits.note(StreamOffset({PARTITIONS[0]: 9}), {})
    monkeypatch.setattr(commits, "SETTLE_S", 0.5)
    later = runs.begin()
    runs.serve(later)

    def wakes() -> Any:
        slept.serve(0.05)
        return slept.commits.lost()

    assert later.run in str(lab.wait_until(wakes))
    assert slept.commits.finish(5) == []
    mark = Mark(later.run).text
    lab.wait_until(lambda: group_commits() == dict.fromkeys(range(4), (0, mark)))
    assert later.commits.lost() is None


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
    assert "moved by somebody else while Spark had it (t[2]: 0 by this run, now 1)" in shown
    assert "new_checkpoint" in shown
    assert run.commits.finish(5) == []
    assert group_commits()[2] == (1, MOVED)


def test_this_process_refuses_a_second_run_at_once() -> None:
    """A program that starts the same app twice hears so; another topic of the group is another matter."""
    reserve("broker", "g", ["t", "u"], "run-1")
    with pytest.raises(GroupInUseError, match=r"runs it on Spark already \(topic 'u', run run-1\)"):
        reserve("broker", "g", ["u", "v"], "run-2")
    reserve("broker", "g", ["v"], "run-2")
    give_back("broker", "g", ["t", "u"], "run-3")  # not its own
    with pytest.raises(GroupInUseError, match="run run-1"):
        reserve("broker", "g", ["u"], "run-3")
    give_back("broker", "g", ["t", "u"], "run-1")
    reserve("broker", "g", ["u"], "run-3")
    for run in ("run-2", "run-3"):
        give_back("broker", "g", ["t", "u", "v"], run)
