"""A reset from outside: once under a name, however many replicas begin at once, and never under a member."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.errors import ConfigurationError, GroupInUseError
from ehkafka.events import GroupReset, GroupWatched
from ehkafka.offsets.members import GroupMember
from ehkafka.progress.metadata import CLAIM, LogFacts, claim, encode, facts_of
from ehkafka.run import resetting
from ehkafka.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OURS = encode(7, LogFacts(2, bytes(range(16)), (6, 1_790_000_000_000)), (), None, 1_023).text or ""


class Group:
    """A group's commits on one topic, which several replicas look at; `latest` is later each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commits: Mapping[int, tuple[int, str]]) -> None:
        self.stored: dict[int, tuple[int | None, str]] = dict.fromkeys(range(4), (None, ""))
        self.stored |= commits
        self.lock = threading.Lock()
        self.resets: list[dict[int, int]] = []
        self.members: list[GroupMember] = []
        self.keeps_text = True
        self.end = 100
        monkeypatch.setattr(resetting, "GroupOffsets", lambda target, topic, timeout_s: View(self, target))
        monkeypatch.setattr("ehkafka.offsets.moving.members_of", lambda *_: list(self.members))
        monkeypatch.setattr(resetting, "SETTLE_S", 0.2)
        monkeypatch.setattr(resetting, "CHECK_S", 0.02)


class View:
    """One replica's way to the group."""

    partitions = tuple(range(4))
    topic, group, where, timeout_s = "t", "g", "home, topic t, group g", 5.0

    def __init__(self, shared: Group, target: Any) -> None:
        self._shared = shared
        self.target = target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        return None

    def commits(self) -> dict[int, tuple[int | None, str]]:
        """Return the group's commits."""
        with self._shared.lock:
            return dict(self._shared.stored)

    def offsets_at(self, start: Any, partitions: Iterable[int]) -> dict[int, int]:
        """Return the logs' ends."""
        with self._shared.lock:
            self._shared.end += 1
            return dict.fromkeys(partitions, self._shared.end)

    def commit(self, positions: Mapping[int, int], texts: Mapping[int, str]) -> None:
        """Commit as the broker does: not while there are members."""
        with self._shared.lock:
            if self._shared.members:
                raise GroupInUseError("the broker refused")
            for number, offset in positions.items():
                text = texts[number] if self._shared.keeps_text else ""
                self._shared.stored[number] = (offset, text)
            if len(positions) == len(self.partitions):
                self._shared.resets.append(dict(positions))


def reset(name: str | bool, reported: list[Any] | None = None, **options: Any) -> None:
    """Do what one replica does as it starts."""
    endpoint = options.pop("endpoint", None) or Endpoint.kafka("localhost:9092")
    settings = Settings(group="g", start="latest", reset=name, **options)
    emit = (lambda _event: None) if reported is None else reported.append
    resetting.reset_group(endpoint, settings, ["t"], lambda _topic: "latest", emit)


def names(group: Group) -> set[str | None]:
    """Return the names that the commits carry."""
    return {facts_of(offset or 0, text).reset for offset, text in group.stored.values()}


@pytest.mark.parametrize("commits", [{}, {0: (7, OURS), 3: (9, "")}])
def test_replicas_that_start_together_reset_once(
    monkeypatch: pytest.MonkeyPatch, commits: dict[int, tuple[int, str]]
) -> None:
    """The last claim stands, and a process that does not find its own there waits for the name."""
    group = Group(monkeypatch, commits)
    together = threading.Barrier(5)
    reported: list[Any] = []

    def replica() -> None:
        together.wait()
        reset("june", reported)

    threads = [threading.Thread(target=replica) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert len(group.resets) == 1, f"FACT: {len(group.resets)} resets"
    assert [type(event) for event in reported] == [GroupReset]
    assert names(group) == {"june"}


def test_a_group_that_was_reset_under_the_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarted with members or without; a partition that came later has no commit yet."""
    named = encode(50, LogFacts(4, reset="june"), (), None, 1_023).text or ""
    group = Group(monkeypatch, {0: (50, named), 1: (50, named)})
    group.members = [GroupMember("a", "host", ())]
    reset("june")
    assert (group.resets, group.stored[0]) == ([], (50, named))
    with pytest.raises(GroupInUseError, match="has 1 member: a on host"):
        reset("july")
    group.members = []
    reset("july")
    assert names(group) == {"july"}


def test_without_a_name_each_start_resets(monkeypatch: pytest.MonkeyPatch) -> None:
    """And forgets the name of an earlier reset and what reported the log of then; what is new counts anew."""
    named = encode(7, LogFacts(2, bytes(range(16)), (6, 5), "june"), (), None, 1_023).text or ""
    group = Group(monkeypatch, {0: (7, named)})
    reset(True)
    reset(True)
    assert len(group.resets) == 2
    offset, text = group.stored[0]
    assert facts_of(offset or 0, text) == LogFacts(4)
    group.members = [GroupMember("a", "host", ())]
    with pytest.raises(GroupInUseError) as refused:
        reset(True)
    assert refused.value.exit_code == 5


def test_a_replica_that_joins_meanwhile_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker refuses our claim, for the one that has reset is a member by then: look again, and join."""
    group = Group(monkeypatch, {0: (7, OURS)})
    named = encode(50, LogFacts(4, reset="june"), (), None, 1_023).text or ""
    refusing = View.commit

    def joined(view: View, positions: Mapping[int, int], texts: Mapping[int, str]) -> None:
        group.members = [GroupMember("a", "host", ())]
        group.stored = dict.fromkeys(range(4), (50, named))
        refusing(view, positions, texts)

    monkeypatch.setattr(View, "commit", joined)
    reset("june")
    assert group.resets == []


def test_the_claim_of_a_replica_that_died_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for at first; then another process resets."""
    monkeypatch.setattr(resetting, "LATE_S", 0.5)
    group = Group(monkeypatch, {0: (7, claim(7, LogFacts(2), "dead")), 1: (9, "")})
    began_s = time.monotonic()
    reset("june")
    assert time.monotonic() - began_s > 0.7
    assert (len(group.resets), names(group)) == (1, {"june"})


def test_a_commit_that_changes_under_the_claim_is_a_client_that_consumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a service takes commits from outside although there are members, nothing is moved."""
    group = Group(monkeypatch, {0: (7, OURS), 1: (9, "")})
    committing = View.commit

    def watched(view: View, positions: Mapping[int, int], texts: Mapping[int, str]) -> None:
        committing(view, positions, texts)
        group.stored[1] = (10, "")

    monkeypatch.setattr(View, "commit", watched)
    with pytest.raises(GroupInUseError, match=r"the commit of t\[1\] changed while it was watched"):
        reset("june")
    assert group.resets == []
    assert group.stored[0][1].startswith(CLAIM)
    assert facts_of(7, group.stored[0][1]) == facts_of(7, OURS)


def test_a_name_is_refused_where_it_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that returns no metadata: nothing has moved."""
    group = Group(monkeypatch, {0: (7, OURS), 1: (9, "")})
    group.keeps_text = False
    with pytest.raises(ConfigurationError, match="does not keep the metadata of commits"):
        reset("june")
    assert (group.resets, group.stored[0][0], group.stored[1]) == ([], 7, (9, ""))


def test_on_event_hubs_commits_are_watched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No document says that it refuses a commit from outside: for as long as the slowest client commits."""
    monkeypatch.setattr(resetting, "UNREPORTED_S", 0.3)
    group, reported = Group(monkeypatch, {0: (7, OURS)}), []
    endpoint = Endpoint.connection_string(
        "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=b"
    )
    reset(True, reported, endpoint=endpoint)
    assert [type(event) for event in reported] == [GroupWatched, GroupReset]
    assert len(group.resets) == 1


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 65, 3, None])
def test_what_is_no_name_is_refused(name: Any) -> None:
    """It goes into the metadata of every commit."""
    with pytest.raises(ConfigurationError, match="reset="):
        Settings(group="g", start="latest", reset=name)
