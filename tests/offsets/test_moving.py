"""Plans and their carrying out, with a group that answers as scripted.

A live group is not moved: commits are watched for longer than any known client takes between two.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.cli.offsets.plans import plan_as_text
from ehkafka.errors import EndpointError, GroupInUseError, OffsetGapError
from ehkafka.offsets.members import GroupMember
from ehkafka.offsets.moving import move
from ehkafka.offsets.plan import Move, Plan, planned
from ehkafka.offsets.view import LagReport, PartitionView
from ehkafka.positions.gap import LogBounds

WHERE = "home, topic t, group g"
SKIP = Move(0, LogBounds(0, 100), 5, 5, text="ehk2.", kept=((6, 9), (20, 21)))


def view(
    partition: int, committed: int | None, start: int = 0, end: int = 100, *, above: int = 0
) -> PartitionView:
    """Return where a group stands."""
    finished = ((committed + 1, committed + 1 + above),) if committed is not None and above else ()
    return PartitionView(partition, LogBounds(start, end), committed, finished)


class Group:
    """A group whose commits are what was committed, unless another client is to commit."""

    group, topic, where, timeout_s = "g", "t", WHERE, 1.0

    def __init__(self, *views: PartitionView, is_event_hubs: bool = False) -> None:
        self.target = SimpleNamespace(endpoint=SimpleNamespace(is_event_hubs=is_event_hubs))
        self.now = {one.partition: one for one in views}
        self.requests: list[dict[int, int]] = []
        self.overruled: dict[int, int] = {}

    def views(self) -> dict[int, PartitionView]:
        """Where it stands now."""
        return dict(self.now)

    def commits(self) -> dict[int, tuple[int | None, str]]:
        """Its commits, with what they say above them."""
        return {number: (one.committed, f"{one.finished_above} above") for number, one in self.now.items()}

    def commit(self, positions: dict[int, int], _texts: dict[int, str] | None) -> None:
        """Take a commit, or what another client makes of it."""
        self.requests.append(dict(positions))
        for number, offset in (positions | self.overruled).items():
            self.now[number] = view(number, offset)


class LiveGroup(Group):
    """A group whose consumer reads ten records and commits every so often; time passes in pauses."""

    def __init__(self, commits_every_s: float = float("inf"), *, is_event_hubs: bool = False) -> None:
        super().__init__(view(0, 40), is_event_hubs=is_event_hubs)
        self.commits_every_s = commits_every_s
        self.now_s = 0.0
        self.checks = 0

    def pass_time(self, seconds: float) -> None:
        """Let it pass."""
        self.now_s += seconds
        self.now[0] = view(0, 40 + 10 * int(self.now_s / self.commits_every_s))

    def commits(self) -> dict[int, tuple[int | None, str]]:
        """Return its commit."""
        self.checks += 1
        return super().commits()


@pytest.fixture(autouse=True)
def members(monkeypatch: pytest.MonkeyPatch) -> list[GroupMember]:
    """Return the members that the broker tells."""
    found: list[GroupMember] = []
    monkeypatch.setattr("ehkafka.offsets.moving.members_of", lambda *_arguments: found)
    return found


def moved(group: Any, wanted: dict[int, int], **options: Any) -> dict[int, PartitionView]:
    """Plan and move."""
    return move(group, planned(group.views(), wanted, **options), watch_s=0)


def test_only_what_changes_is_committed_in_one_request() -> None:
    """An unchanged partition and one that is not wanted cost nothing."""
    group = Group(view(0, 5), view(1, 6), view(2, None))
    after = moved(group, {0: 5, 1: 7})
    assert group.requests == [{1: 7}]
    assert {number: one.committed for number, one in after.items()} == {0: 5, 1: 7, 2: None}


def test_nothing_to_move_asks_no_broker(members: list[GroupMember]) -> None:
    """Not even whether a client consumes."""
    members.append(GroupMember("app", "host", (0,)))
    group = Group(view(0, 5))
    moved(group, {0: 5})
    assert group.requests == []


def test_a_refused_partition_keeps_all_where_they_are() -> None:
    """Each is named with its log; nothing is committed."""
    group = Group(view(0, 5), view(1, 60, start=50), view(2, 5))
    with pytest.raises(OffsetGapError) as refused:
        moved(group, {0: 7, 1: 40, 2: 101, 9: 1})
    text = str(refused.value)
    assert text.startswith(WHERE)
    assert "partition 1: 40 is 10 before the log's start (50–100)" in text
    assert "partition 2: 101 is 1 ahead of the log's end (0–100)" in text
    assert "partition 9: the topic has no such partition" in text
    assert "Nothing was moved" in text
    assert group.requests == []


def test_clamped_positions_are_the_nearest_end() -> None:
    """At both ends; the end itself is a position."""
    group = Group(view(0, 60, start=50), view(1, 5), view(2, 5))
    moved(group, {0: 40, 1: 101, 2: 100}, clamp=True)
    assert group.requests == [{0: 50, 1: 100, 2: 100}]


def test_members_that_the_broker_tells_refuse(members: list[GroupMember]) -> None:
    """They are named, and nothing is committed."""
    members += [GroupMember("app", "/10.0.0.1", (0,))] * 5
    group = Group(view(0, 5))
    with pytest.raises(GroupInUseError, match=r"5 members: app on /10.0.0.1.* and 2 more. Nothing was moved"):
        moved(group, {0: 7})
    assert group.requests == []


def test_what_is_read_back_must_be_what_was_committed() -> None:
    """Another client commits: that is reported, with both offsets."""
    group = Group(view(0, 5))
    group.overruled = {0: 6}
    with pytest.raises(GroupInUseError, match="partition 0 was moved to 7, but 6 was read back"):
        moved(group, {0: 7})


def test_lag_without_a_commit_is_the_whole_log() -> None:
    """Who watches the lag must not hear that all is well because the group has lost its commits."""
    report = LagReport.of({1: view(1, None, 40), 0: view(0, 90)})
    assert [one.lag for one in report.views] == [10, 60]
    assert (report.total, report.fails(70), report.fails(69)) == (70, False, True)


def test_what_is_finished_above_a_stuck_commit_tells_a_live_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a stuck record the offset stands still, and what the commit says above it moves."""
    group = Group(view(0, 5, above=3), view(1, 5))

    def consume(_seconds: float) -> None:
        group.now[0] = view(0, 5, above=4)

    monkeypatch.setattr("ehkafka.offsets.moving._pause", consume)
    with pytest.raises(GroupInUseError, match="commit of partition 0 was renewed while it was watched"):
        moved(group, {1: 7})
    assert group.requests == []


def test_to_begin_anew_where_the_group_stands_drops_what_was_finished_above() -> None:
    """Who resets to the very commit wants all from there on again; an import only wants the position."""
    group = Group(view(0, 5, above=3), view(1, 5))
    moved(group, {0: 5, 1: 5})
    assert group.requests == []
    plan = planned(group.views(), {0: 5, 1: 5}, anew=True)
    assert [(one.changes, one.finished_again) for one in plan.moves] == [(True, 3), (False, 0)]
    moved(group, {0: 5, 1: 5}, anew=True)
    assert group.requests == [{0: 5}]


def test_a_skip_is_no_newer_than_the_commit_that_it_was_made_of() -> None:
    """What the commit says above it has moved since the plan was made: a client consumes."""
    group = Group(view(0, 5, above=3))
    with pytest.raises(GroupInUseError, match="commit of partition 0 was renewed"):
        move(group, Plan((SKIP,)), before={0: (5, "2 above")}, watch_s=0)  # type: ignore[arg-type]
    assert group.requests == []


def test_a_service_that_forgets_what_a_commit_says_is_named() -> None:
    """The skipped record would be handled again, and the report would not say so."""
    group = Group(view(0, 5, above=3))
    with pytest.raises(EndpointError, match="this service does not keep the list"):
        move(group, Plan((SKIP,)), watch_s=0)  # type: ignore[arg-type]
    assert group.requests == [{0: 5}]


def test_previews_count_what_is_finished_and_passed_or_handled_again() -> None:
    """Of a move forward over some of it, back, and to the very place; a kept partition repeats nothing."""
    views = {0: view(0, 5, above=10)}
    forward, back, stays, anew = (
        planned(views, {0: 9}),
        planned(views, {0: 2}),
        planned(views, {0: 5}),
        planned(views, {0: 5}, anew=True),
    )
    found = [
        (one.passed_finished, one.finished_again)
        for plan in (forward, back, stays, anew)
        for one in plan.moves
    ]
    assert found == [(3, 7), (0, 10), (0, 0), (0, 10)]
    text = plan_as_text(forward)
    assert "skips 4, 3 of them finished already; repeats 7 that finished out of order" in text


def watched(
    monkeypatch: pytest.MonkeyPatch,
    group: LiveGroup,
    members: list[GroupMember] | None = None,
    **options: Any,
) -> list[str]:
    """Move it to 7 with the default watch; return what was said meanwhile."""
    monkeypatch.setattr("ehkafka.offsets.moving.members_of", lambda *_arguments: members)
    monkeypatch.setattr("ehkafka.offsets.moving._pause", group.pass_time)
    seen: list[str] = []
    move(group, planned(group.views(), {0: 7}), report=seen.append, **options)  # type: ignore[arg-type]
    assert group.requests == [{0: 7}]
    return seen


@pytest.mark.parametrize(
    ("client", "commits_every_s"),
    [("ehkafka", 1.0), ("a plain client", 5.0), ("Kafka Streams", 30.0), ("Kafka Connect", 60.0)],
)
@pytest.mark.parametrize("is_event_hubs", [False, True])
def test_a_live_group_that_the_broker_does_not_report_is_not_moved(
    client: str, commits_every_s: float, is_event_hubs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever client it is, with its default settings; the refusal comes with its next commit."""
    group = LiveGroup(commits_every_s, is_event_hubs=is_event_hubs)
    with pytest.raises(GroupInUseError, match="moved from 40 to 50 while it was watched"):
        watched(monkeypatch, group)
    assert group.now_s == commits_every_s, client


def test_a_client_that_is_no_member_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given its partitions, so the broker truly says that the group has no members."""
    with pytest.raises(GroupInUseError, match="while it was watched"):
        watched(monkeypatch, LiveGroup(5.0), [])


@pytest.mark.parametrize(
    ("members", "is_event_hubs", "seconds", "words"),
    [
        ([], False, 7.0, "no member"),
        (None, False, 65.0, "the broker does not report"),
        # No document says what Event Hubs answers for a group that lives.
        ([], True, 65.0, "Event Hubs may not report"),
        (None, True, 65.0, "Event Hubs may not report"),
    ],
)
def test_how_long_it_watches_is_reported(
    members: Any, is_event_hubs: bool, seconds: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says why the command stands still and how to shorten it; it looks every second."""
    group = LiveGroup(is_event_hubs=is_event_hubs)
    [seen] = watched(monkeypatch, group, members)
    assert seen.startswith(f"watching for {seconds:g} s whether a client commits: ")
    assert words in seen
    assert "--watch-for" in seen
    assert group.now_s == seconds
    assert group.checks == seconds + 1


@pytest.mark.parametrize(("watch_s", "seen"), [(0.0, 0), (2.5, 1)])
def test_who_knows_better_says_how_long(watch_s: float, seen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not at all: then nothing is reported, and the commits are still compared once."""
    group = LiveGroup()
    assert len(watched(monkeypatch, group, watch_s=watch_s)) == seen
    assert group.now_s == watch_s
