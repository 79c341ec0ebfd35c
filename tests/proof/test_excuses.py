"""What is excused for a fault's doing is bound to that fault; all else that a member does wrong is red."""

from __future__ import annotations

import math
import os
import random
import time
import uuid
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from ehkafka.errors import EndpointError, FencedError, UnfinishedError
from tests.kit.waiting import wait_until
from tests.proof import by_hand
from tests.proof import members as rooms
from tests.proof.by_hand import ByHand
from tests.proof.members import CONVERTED, NO_ROOM, SESSION_S, STRANDED, Members
from tests.proof.node_faults import NodeFaults
from tests.proof.options import parse
from tests.proof.violations import Violations
from tests.proof.work import group_of, input_topic

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker


class Cluster:
    """One that nothing starts."""

    nodes = (1,)
    bootstrap = "127.0.0.1:1"

    def bootstrap_for(self, _client: str) -> str:
        """Return its address."""
        return self.bootstrap

    def wait_until_in_sync(self, _timeout_s: float) -> None:
        """Return: it always is."""


class Ended:
    """A member of level 0 that does not run, or has no partitions for ever."""

    pid = 0

    def __init__(self, folder: Path, code: int | None, logged: str = "", *, runs: bool = False) -> None:
        self.name, self.exit_code, self.is_running = "member-0-0", code, runs
        self.log = folder / "member-0-0.log"
        self.log.write_text(logged)
        self.starts = 0

    def start(self) -> None:
        """Run from now on, with partitions."""
        self.is_running = True
        self.starts += 1

    def kill(self) -> None:
        """Run no more."""
        self.is_running = False

    terminate = kill

    def wait(self, _timeout_s: float) -> int | None:
        """Return the exit code."""
        return self.exit_code

    def assigned(self) -> dict[Any, str]:
        """Return partitions, once it was started again."""
        return {1: "committed"} if self.starts else {}

    def say(self, words: str) -> None:
        """Write to its log."""
        self.log.write_text(f"{self.log_tail()}{words}\n")

    def log_tail(self) -> str:
        """Return what it logged."""
        return self.log.read_text()


class Brokers(NodeFaults):
    """Nodes of which the last fault has ended so many seconds ago."""

    def __init__(self, back_s_ago: float) -> None:
        super().__init__(Cluster(), [], random.Random(1))
        self._back_s = time.monotonic() - back_s_ago
        self._commits_back_s = {0: self._back_s}


def members_with(folder: Path, back_s_ago: float = math.inf, *, refuses: bool = False, **how: Any) -> Members:
    """Return members of which none was started."""
    asked = parse(
        None,
        [
            "--kind",
            how.get("kind", "threads"),
            *(["--static"] if how.get("static") else []),
            *how.get("more", ()),
        ],
    )
    nodes, violations = Brokers(back_s_ago), Violations()
    return Members(asked, Cluster(), nodes, folder, violations, random.Random(1), lambda *_: refuses)


@pytest.mark.parametrize(
    ("back_s_ago", "refuses", "is_red"), [(1, False, False), (math.inf, True, False), (30, False, True)]
)
def test_a_stop_that_leaves_work(tmp_path: Path, back_s_ago: float, *, refuses: bool, is_red: bool) -> None:
    """A broker was just away, or an output was just refused; else it is red."""
    members = members_with(tmp_path, back_s_ago, refuses=refuses)
    members._stop(Ended(tmp_path, UnfinishedError.exit_code))  # type: ignore[arg-type]
    assert bool(members._violations.counts["code"]) == is_red
    assert bool(members.counts["unfinished_stops"]) != is_red


@pytest.mark.parametrize(("frozen_s_ago", "is_red"), [(1.0, False), (SESSION_S + 2, True), (math.inf, True)])
def test_a_stop_of_a_member_that_was_just_frozen(
    tmp_path: Path, frozen_s_ago: float, *, is_red: bool
) -> None:
    """Its session may have expired, so its last commit is refused."""
    members = members_with(tmp_path, 30)
    member: Any = Ended(tmp_path, UnfinishedError.exit_code)
    members._frozen_s[member] = time.monotonic() - frozen_s_ago
    members._stop(member)
    assert bool(members._violations.counts["code"]) == is_red
    assert members.counts["unfinished_stops"] == 1 - is_red


@pytest.mark.parametrize(
    ("room", "words", "is_red"),
    [
        (["--metadata-bytes", "64"], NO_ROOM, False),
        ([], NO_ROOM, True),
        (["--metadata-bytes", "64"], "", True),
    ],
)
def test_a_stop_whose_commit_has_too_little_room(
    tmp_path: Path, room: list[str], words: str, *, is_red: bool
) -> None:
    """It is red where there is room enough, and for any other reason."""
    members = members_with(tmp_path, 30, more=room)
    member: Any = Ended(tmp_path, UnfinishedError.exit_code)
    member.say(words)
    members._stop(member)
    assert bool(members._violations.counts["code"]) == is_red


def test_a_member_that_ends_because_brokers_are_away_is_red(tmp_path: Path) -> None:
    """By itself, or at a stop."""
    members = members_with(tmp_path, 0.0)
    members._revive(Ended(tmp_path, EndpointError.exit_code))  # type: ignore[arg-type]
    members._stop(Ended(tmp_path, EndpointError.exit_code))  # type: ignore[arg-type]
    assert members._violations.counts == {"died": 1, "code": 1}


@pytest.mark.parametrize(
    ("frozen_s_ago", "back_s_ago", "ended_s_ago", "is_red"),
    [
        (1.0, math.inf, 0.0, False),
        (20.0, math.inf, 19.0, False),
        (math.inf, 1.0, 0.0, False),
        (SESSION_S + 2, SESSION_S + 2, 0.0, True),
    ],
)
def test_a_static_member_that_is_fenced(
    tmp_path: Path, frozen_s_ago: float, back_s_ago: float, ended_s_ago: float, *, is_red: bool
) -> None:
    """It was frozen or lacked its coordinator just before it ended, which may be a while ago."""
    members = members_with(tmp_path, back_s_ago, static=True)
    member: Any = Ended(tmp_path, FencedError.exit_code)
    members._frozen_s[member] = time.monotonic() - frozen_s_ago
    ended_s = time.time() - ended_s_ago
    os.utime(member.log, (ended_s, ended_s))
    members._revive(member)
    assert bool(members._violations.counts["died"]) == is_red
    assert members.counts["fenced"] == 1 - is_red


@pytest.mark.parametrize(
    ("kind", "protocol", "logged", "is_red"),
    [
        ("drop-in", "mixed", CONVERTED, False),
        ("drop-in", "mixed", "Fatal error: another one", True),
        ("drop-in", "consumer", CONVERTED, True),
        ("threads", "mixed", CONVERTED, True),
    ],
)
def test_a_client_by_hand_whose_group_went_back_to_the_classic_protocol(
    tmp_path: Path, kind: str, protocol: str, logged: str, *, is_red: bool
) -> None:
    """Only a mixed group goes back, and an app must not end by it."""
    members = members_with(tmp_path, kind=kind, more=["--protocol", protocol])
    member: Any = Ended(tmp_path, 1)
    member.say(logged)
    members._revive(member)
    assert bool(members._violations.counts["died"]) == is_red
    assert members.counts["converted"] == 1 - is_red


@pytest.mark.parametrize(
    ("logged", "back_s_ago", "is_red"),
    [
        ("not live: The client has known no broker for 16 s", 50.0, False),
        ("not live: The client has known no broker for 16 s", 90.0, True),
        ("not live: The poll loop has not run for 40 s.", 1.0, True),
        ("", 1.0, True),
    ],
)
def test_a_member_that_gets_no_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: str, back_s_ago: float, *, is_red: bool
) -> None:
    """It is excused where its client has lost all brokers, which were away; it is started again."""
    monkeypatch.setattr(rooms, "STRANDED_S", 0.01)
    monkeypatch.setattr(Members, "_stacks", lambda *_: "")
    members = members_with(tmp_path, back_s_ago)
    member: Any = Ended(tmp_path, None, STRANDED, runs=True)
    monkeypatch.setattr(time, "sleep", lambda _s: member.say(logged))
    members._wait_until_ready(member)
    assert bool(members._violations.counts["idle"]) == is_red
    assert members.counts["stranded"] == 1 - is_red
    assert member.starts == 1


def test_what_a_member_by_hand_said_before_its_last_start_excuses_nothing(tmp_path: Path) -> None:
    """All starts write one log."""
    members = members_with(tmp_path, kind="plain")
    member: Any = Ended(tmp_path, None, "3/3 brokers are down\n")
    assert members._is_stranded(member)
    members._start(member)
    assert not members._is_stranded(member)


def test_a_client_by_hand_ends_at_a_fatal_error(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second static member of its name fences it; its client does nothing from then on."""
    static = {"group.instance.id": "one", "session.timeout.ms": 6000}
    level = uuid.uuid4().int
    asked = {
        "broken": None,
        "level": level,
        "bootstrap": kafka.bootstrap,
        "kind": "plain",
        "consumer": static,
    }
    monkeypatch.setattr(by_hand, "options", lambda: asked)
    kafka.create_topic(input_topic(level), 1)
    first = ByHand(Mock())
    wait_until(lambda: not first.consumer.consume(1, 0.1) and first.consumer.assignment(), "partitions", 30.0)
    reads = {"bootstrap.servers": kafka.bootstrap, "group.id": group_of(level)}
    second = Consumer({**reads, **static})
    try:
        second.subscribe([input_topic(level)])
        second.poll(1.0)
        with pytest.raises(KafkaException) as raised:
            first.work()
        assert raised.value.args[0].code() == KafkaError._FATAL
    finally:
        second.close()
