"""A live group is not moved: commits are watched for longer than any known client takes between two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import GroupInUseError
from ehkafka.offsets.moving import move
from ehkafka.offsets.plan import planned
from ehkafka.offsets.view import PartitionView
from ehkafka.positions.gap import LogBounds

if TYPE_CHECKING:
    from ehkafka.offsets.members import Member


class LiveGroup:
    """A group whose consumer has records to read and commits every so often; time passes in pauses."""

    group, topic, where, timeout_s = "g", "t", "home, topic t, group g", 1.0

    def __init__(self, commits_every_s: float = float("inf"), *, is_event_hubs: bool = False) -> None:
        self.target = SimpleNamespace(endpoint=SimpleNamespace(is_event_hubs=is_event_hubs))
        self.commits_every_s = commits_every_s
        self.now_s = 0.0
        self.checks = 0
        self.moved_to: int | None = None

    def pass_time(self, seconds: float) -> None:
        """Let it pass."""
        self.now_s += seconds

    @property
    def offset(self) -> int:
        """Where the group stands: its consumer reads ten records between two commits."""
        return 40 + 10 * int(self.now_s / self.commits_every_s) if self.moved_to is None else self.moved_to

    def views(self) -> dict[int, PartitionView]:
        """Where it stands in its one partition."""
        return {0: PartitionView(0, LogBounds(0, 10_000), self.offset)}

    def commits(self) -> dict[int, tuple[int | None, str]]:
        """Its commit."""
        self.checks += 1
        return {0: (self.offset, "")}

    def commit(self, positions: dict[int, int], _texts: dict[int, str] | None) -> None:
        """Be moved."""
        self.moved_to = positions[0]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[list[Member] | None]:
    """Return what the broker tells of the group's members."""
    answer: list[list[Member] | None] = [None]
    monkeypatch.setattr("ehkafka.offsets.moving.members_of", lambda *_arguments: answer[0])
    return answer


def moved(group: Any, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[str]:
    """Move it to 7 with the default watch; return what was said meanwhile."""
    monkeypatch.setattr("ehkafka.offsets.moving._pause", group.pass_time)
    seen: list[str] = []
    move(group, planned(group.views(), {0: 7}), report=seen.append, **options)
    assert group.moved_to == 7
    return seen


@pytest.mark.parametrize(
    ("client", "commits_every_s"),
    [("ehkafka", 1.0), ("a plain client", 5.0), ("Kafka Streams", 30.0), ("Kafka Connect", 60.0)],
)
@pytest.mark.parametrize("is_event_hubs", [False, True])
@pytest.mark.usefixtures("reported")
def test_a_live_group_that_the_broker_does_not_tell_of_is_not_moved(
    client: str, commits_every_s: float, is_event_hubs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever client it is, with its default settings; the refusal comes with its next commit."""
    group = LiveGroup(commits_every_s, is_event_hubs=is_event_hubs)
    with pytest.raises(GroupInUseError, match="moved from 40 to 50 while it was watched"):
        moved(group, monkeypatch)
    assert group.now_s == commits_every_s, client


def test_a_client_that_is_no_member_is_seen(
    reported: list[list[Member] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given its partitions, so the broker truly says that the group has no members."""
    reported[0] = []
    with pytest.raises(GroupInUseError, match="while it was watched"):
        moved(LiveGroup(5.0), monkeypatch)


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
    reported: list[list[Member] | None],
    members: list[Member] | None,
    is_event_hubs: bool,
    seconds: float,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line says why the command stands still and how to shorten it; it looks every second."""
    reported[0] = members
    group = LiveGroup(is_event_hubs=is_event_hubs)
    [seen] = moved(group, monkeypatch)
    assert seen.startswith(f"watching for {seconds:g} s whether a client commits: ")
    assert words in seen
    assert "--watch-for" in seen
    assert group.now_s == seconds
    assert group.checks == seconds + 1


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize(("watch_s", "seen"), [(0.0, 0), (2.5, 1)])
def test_who_knows_better_says_how_long(watch_s: float, seen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not at all: then nothing is reported, and the commits are still compared once."""
    group = LiveGroup()
    assert len(moved(group, monkeypatch, watch_s=watch_s)) == seen
    assert group.now_s == watch_s
