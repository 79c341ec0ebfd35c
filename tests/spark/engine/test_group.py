"""A run's consumer group on the embedded broker, without Spark: who else is there, and where it begins."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, GroupInUseError, OffsetGapError
from ehkafka.events import CommitFailed, ConnectionTrouble, OffsetGap
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.metadata import MOVED, LogFacts, encode
from ehkafka.records import TopicPartition
from ehkafka.spark.engine.group import commits
from ehkafka.spark.engine.group import ownership as holding
from ehkafka.spark.engine.group.group import Group
from ehkafka.spark.engine.group.marks import Mark
from ehkafka.spark.engine.group.reservation import give_back, reserve
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.testing import EmbeddedBroker

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


class Runs:
    """Runs of one group: opened here, served by threads of their own, closed at the end."""

    def __init__(self, app_at: Callable[..., Any], parts_of: Callable[..., Any]) -> None:
        self._app_at, self._parts_of = app_at, parts_of
        self.failures: list[Exception] = []
        self.events: list[object] = []
        self._undo = ExitStack()

    def open(self, **settings: Any) -> Group:
        """Open one that has not begun."""
        app = self._app_at(**settings)
        app.handler("t")(lambda _record: None)
        parts = self._parts_of(app)
        bus = EventBus((SimpleNamespace(on_event=self.events.append),))
        bus.start()
        self._undo.callback(bus.close, 1.0)
        group = Group(parts, bus, self.failures.append)
        self._undo.callback(group.close, deadline_s=0.0)
        group.open()
        return group

    def begin(self, **settings: Any) -> Group:
        """Open one and let it take the group."""
        group = self.open(**settings)
        group.claim(group.begin())
        return group

    def serve(self, group: Group) -> None:
        """Let one live: a thread serves it until the end."""
        ended = threading.Event()

        def live() -> None:
            while not ended.is_set():
                group.serve(0.05)

        thread = threading.Thread(target=live)
        thread.start()
        self._undo.callback(thread.join)
        self._undo.callback(ended.set)

    def close(self) -> None:
        """End all."""
        self._undo.close()


@pytest.fixture
def runs(app_at: Callable[..., Any], lab: Any) -> Iterator[Runs]:
    """Return what opens runs of the group `g`."""
    opened = Runs(app_at, lab.parts_of)
    yield opened
    opened.close()


def test_a_second_run_is_refused_and_the_first_goes_on(
    runs: Runs, group_commits: Any, produced: Any, lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever begins while another run lives is told of it by name; the one that runs loses nothing."""
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
    for module in (commits, holding):
        monkeypatch.setattr(module, "LOOK_TIMEOUT_S", 0.2)
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
    """One thread at a time: a late answer is waited for, with a bound; then the client is left, and told."""
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
    held = holding.Holding(Mark("r"), [], "The group 'g'", lambda _event: None)
    consumer: Any = SimpleNamespace(committed=committed)
    for _ in range(4):
        assert held.look(consumer, ledger, ours) is None
    is_up = True
    held.look(consumer, ledger, ours)
    held.look(consumer, ledger, ours)
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


@pytest.mark.parametrize(
    ("metadata", "who"),
    [("", "a consumer, "), (MOVED, "a consumer, "), (Mark("c").text, r"another run on Spark \(c\)")],
)
def test_what_is_committed_while_a_run_begins_is_not_overwritten(
    runs: Runs, group_commits: Any, produced: Any, metadata: str, who: str
) -> None:
    """C7: who commits between a start's look at the group and its first commit keeps what was committed.

    The trap: records that a consumer finished while it left would be handled again, and those behind a
    rewind never.
    """
    produced(400)
    group_commits({0: (7, "")})
    run = runs.open()
    starts = run.begin()
    group_commits({0: (3, metadata), 1: (5, metadata)})
    where = r"t\[0\]: 7, now 3, t\[1\]: none, now 5"
    with pytest.raises(GroupInUseError, match=rf"began \({where}\): by {who}.*start again to go on"):
        run.claim(starts)
    assert group_commits() == {0: (3, metadata), 1: (5, metadata), 2: (-1001, ""), 3: (-1001, "")}
    assert list(runs.open().begin().values()) == [3, 5, 0, 0]


def test_what_is_committed_while_the_first_commit_is_tried_again_is_not_overwritten(
    runs: Runs, group_commits: Any, produced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: a coordinator that loads keeps a start waiting for seconds, in which others may commit."""
    produced(400)
    commit_once = Committer.commit_once

    def refused_once(*_arguments: object) -> Any:
        monkeypatch.setattr(Committer, "commit_once", commit_once)
        group_commits(between)
        return KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), ()

    run = runs.open()
    starts = run.begin()
    between = {0: (0, Mark(run.run).text), 1: (0, "")}  # our own, whose answer was lost; and no change
    monkeypatch.setattr(Committer, "commit_once", refused_once)
    assert run.claim(starts).keeps_marks
    assert run.commits.finish(10) == []
    run = runs.open()
    starts = run.begin()
    between = {1: (5, "")}
    monkeypatch.setattr(Committer, "commit_once", refused_once)
    with pytest.raises(GroupInUseError, match=r"t\[1\]: 0, now 5\)"):
        run.claim(starts)
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

    said = str(lab.wait_until(lost))
    assert "moved by somebody else while Spark had it (t[2]: 0 by this run, now 1)" in said
    assert "new_checkpoint" in said
    assert run.commits.finish(5) == []
    assert group_commits()[2] == (1, MOVED)


def test_this_process_refuses_a_second_run_at_once() -> None:
    """A program that starts the same app twice is told so; another topic of the group is another matter."""
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
    """A topic made anew: one error that says what to do, or its beginning, as on_out_of_range says."""
    produced(8)
    group_commits({1: (500, "")})
    run = runs.open()
    with pytest.raises(OffsetGapError, match=r"t\[1\].*500.*made anew.*offsets reset.*'earliest'\.$") as told:
        run.claim(run.begin())
    assert "latest" not in str(told.value)
    run = runs.open(on_out_of_range="earliest")
    assert run.claim(run.begin()).starts[PARTITIONS[1]] == 0
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
    assert run.commits.finish(10) == []
    assert [offset for offset, _ in group_commits().values()] == [2, 6, 0, 0]


def test_commits_that_are_denied_are_told_as_such(
    runs: Runs, broker: EmbeddedBroker, produced: Any, lab: Any
) -> None:
    """A right that is missing is no group in use: the error says which right, at the start and later."""
    produced(8)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.GROUP_AUTHORIZATION_FAILED)
    run = runs.open()
    with pytest.raises(EndpointError, match=r"does not let this app commit.*ACL for READ.*start again\.$"):
        run.claim(run.begin())
    run = runs.begin()
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    run.commits.note(StreamOffset({PARTITIONS[0]: 1}), {})

    def lost() -> Any:
        run.serve(0.05)
        return run.commits.lost()

    said = str(lab.wait_until(lost))
    assert "does not let this app commit" in said
    assert "in use" not in said
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
    failed = (ConnectionTrouble, CommitFailed)

    def is_committed() -> bool:
        run.serve(0.05)
        assert run.commits.lost() is None
        told = {type(one) for one in runs.events if isinstance(one, failed)}
        return len(told) == 2 and run.commits.trouble is None

    lab.wait_until(is_committed)
    assert group_commits()[3] == (5, Mark(run.run).text)


def test_a_commit_whose_mark_is_refused_is_made_without(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any
) -> None:
    """A broker that takes no metadata keeps nobody from running: offsets alone are compared then."""
    produced(8)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE)
    run = runs.open()
    assert not run.claim(run.begin()).keeps_marks
    run.commits.note(StreamOffset({PARTITIONS[0]: 1}), {})
    assert run.commits.finish(10) == []
    assert group_commits() == {0: (1, ""), 1: (0, ""), 2: (0, ""), 3: (0, "")}


def test_a_run_whose_mark_would_be_too_long_commits_without(
    runs: Runs, group_commits: Any, broker: EmbeddedBroker, produced: Any
) -> None:
    """Metadata that the settings do not allow is not even tried, in the first commit nor in the last."""
    produced(8)
    run = runs.open(commit_metadata_bytes_max=0)
    assert not run.claim(run.begin()).keeps_marks
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
        run.claim(starts)
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
    assert group_commits()[0] == (2, Mark(run.run, has_ended=True).text)
