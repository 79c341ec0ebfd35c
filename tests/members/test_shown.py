"""What a supervisor shows: the sum over members, each of them, health, advice, errors in the end."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.errors import (
    ConfigurationError,
    EngineError,
    FencedError,
    HandlerFailedError,
    TopicNotFoundError,
    UnfinishedError,
)
from ehkafka.members.member import SILENCE_S, Member
from ehkafka.members.opening import advice, checked_hung_s
from ehkafka.members.restarts import described, failure_of
from ehkafka.members.summary import counts_of, joined_health, summed
from ehkafka.records import TopicPartition
from ehkafka.run.health_file import TOUCHED_EVERY_S, HealthFile
from ehkafka.settings import Settings
from ehkafka.telemetry.snapshot import Health, Snapshot
from ehkafka.telemetry.snapshot_json import snapshot_from
from tests.kit.clock import VirtualClock
from tests.kit.pictures import COUNTS, ONE, PARTITION

if TYPE_CHECKING:
    from pathlib import Path


def other(number: int, **changes: Any) -> Snapshot:
    """Return a snapshot of another member, with another partition."""
    return replace(
        ONE, partitions=(replace(PARTITION, partition=TopicPartition("orders", number)),), **changes
    )


class Process:
    """A process that began so many seconds ago."""

    pid = 4711

    def __init__(self, started_s: float = 0.0) -> None:
        self.started_s = started_s


def member(number: int, snapshot: Snapshot | None, now_s: float = 10.0) -> Member:
    """Return a member that has answered at `now_s`."""
    found = Member(number)
    found.begin(Process())  # type: ignore[arg-type]
    if snapshot is not None:
        plain = orjson.loads(orjson.dumps(snapshot.as_dict()))
        health = {"reasons": [], "notes": []}
        found.take(answered(snapshot=plain, not_live=[], health=health), now_s)
    return found


def answered(**state: Any) -> Future[Any]:
    """Return the answer of a member whose state is this."""
    answer: Future[Any] = Future()
    answer.set_result((200, state))
    return answer


def sum_of(*members: Member, ended: dict[str, int] | None = None) -> Snapshot:
    """Return the sum."""
    shown = [one.shown(10.0) for one in members]
    facts: dict[str, Any] = {"group": "g", "endpoint": "e", "state": "running", "taken_at_s": 1.0}
    return summed(shown, ended or {}, **facts, uptime_s=9.0, counters={"MemberEnded": 1})


def test_a_snapshot_comes_back_from_another_process_as_it_was() -> None:
    """With all that is in it, and members in it, too."""
    one = replace(ONE, handlers=(replace(ONE.handlers[0], workers_auto=(1, 9)),))
    assert snapshot_from(orjson.loads(orjson.dumps(one.as_dict()))) == one
    total = sum_of(member(1, ONE), member(2, None))
    assert snapshot_from(orjson.loads(orjson.dumps(total.as_dict()))) == total


def test_a_newer_processs_fields_are_left_out() -> None:
    """In the middle of a rolling restart two versions talk to each other."""
    assert snapshot_from({**ONE.as_dict(), "invented_later": 1}) == ONE


def test_the_sum_counts_each_member_once_and_those_that_ended() -> None:
    """Partitions stand in order; counts of processes that have ended go on to count."""
    total = sum_of(
        member(2, other(1, throttled_s=1.0, broker_silence_s=40.0, mirror=MirrorState("f", 0, 99.0, None))),
        member(1, replace(ONE, handled_bytes=10)),
        ended=counts_of(ONE),
    )
    assert [str(one.partition) for one in total.partitions] == ["orders[1]", "orders[3]"]
    assert (total.finished_records, total.received_records, total.stale_records) == (69, 66, 81)
    assert (total.lag_records, total.backlog_records) == (10, 12)
    assert total.counters == {name: 2 * count for name, count in ONE.counters.items()} | {"MemberEnded": 1}
    assert (total.throttled_s, total.broker_silence_s, len(total.overdue)) == (35.0, 40.0, 2)
    assert (total.socket_bytes, total.handled_bytes, total.lost_s) == (72, 10, None)
    assert total.mirror is not None
    assert total.mirror.error == "full"
    assert [one.number for one in total.members] == [2, 1]


def test_handlers_stand_once_with_what_all_members_did() -> None:
    """Calls of one that does not time them are left out; the longest gap and the shortest life count."""
    untimed = replace(ONE.handlers[0], call_counts=(), calls_s=0.0, is_stopped=True)
    alone = replace(ONE.handlers[0], handler="other")
    total = sum_of(
        member(1, ONE),
        member(2, other(1, handlers=(untimed, alone), poll_gap_s=50.0, token_valid_s=30.0)),
        member(3, other(2, token_valid_s=None)),
    )
    both, one = total.handlers
    assert not both.is_stopped, "one member still runs it"
    assert (both.workers, both.attempts) == (54, {"finished": 57, "held": 60})
    assert both.call_counts == tuple(2 * count for count in COUNTS)
    assert (both.calls_s, one.handler, one.workers) == (5.0, "other", 18)
    assert (total.poll_gap_s, total.token_valid_s) == (50.0, 30.0)
    assert (total.unacknowledged_outputs, total.unacknowledged_messages) == (126, 129)


def test_lag_is_unknown_where_a_member_cannot_know_it() -> None:
    """And all stand by only if each does."""
    assert sum_of(member(1, ONE), member(2, other(1, is_cut_off=True))).lag_records is None
    stopping = other(1, is_cut_off=True, broker_silence_s=99.0, state="stopping")
    assert sum_of(member(1, ONE), member(2, stopping)).broker_silence_s == 35.0, "only of those that run"
    by = replace(ONE, partitions=(), is_standby=True)
    assert not sum_of(member(1, ONE), member(2, by)).is_standby
    assert sum_of(member(1, by), member(2, by)).is_standby


def test_a_member_is_ready_once_it_has_joined() -> None:
    """With partitions, or standing by; not while it starts or stops."""
    assert member(1, ONE).is_ready
    assert member(1, replace(ONE, partitions=(), is_standby=True)).is_ready
    assert not member(1, replace(ONE, partitions=())).is_ready
    assert not member(1, replace(ONE, state="starting")).is_ready
    assert not member(1, None).is_ready
    stopping = member(1, ONE)
    stopping.is_stopping = True
    assert (stopping.is_ready, stopping.state, stopping.is_live(10.0)) == (False, "stopping", True)


def test_silence_and_what_a_member_says_itself_make_it_not_live() -> None:
    """Since when, decides whether it hangs."""
    silent = member(1, ONE, now_s=10.0)
    assert silent.is_live(10.0 + SILENCE_S - 1)
    assert not silent.is_live(10.0 + SILENCE_S)
    assert silent.live_until_s == 10.0
    ill = member(1, ONE, now_s=10.0)
    for at_s in (10.0, 12.0):
        ill.take(answered(not_live=["The poll thread has ended."]), at_s)
    assert not ill.is_live(12.0)
    assert (ill.not_live(12.0), ill.live_until_s) == ("The poll thread has ended.", 10.0)
    ill.take(answered(not_live=[]), 13.0)
    assert (ill.not_live(13.0), ill.live_until_s) == ("", 13.0)
    starting = member(1, None)
    assert (starting.state, starting.is_live(1.0), starting.not_live(1.0)) == ("starting", False, "")


def test_health_names_the_member() -> None:
    """One that answers, one that does not, one that waits for its next start."""
    well, ill = member(1, ONE), member(2, ONE)
    ill.take(answered(health={"reasons": ["orders[0]@7 is on hold."], "notes": ["standby"]}), 10.0)
    down = Member(3, start_at_s=14.0, last_end="signal SIGKILL")
    health = joined_health(one.health(10.0) for one in (well, ill, down))
    assert health == Health(
        (
            "Member 2: orders[0]@7 is on hold.",
            "Member 3 ended (signal SIGKILL). It restarts in 4.0 s.",
        ),
        ("Member 2: standby",),
    )
    assert well.health(40.0).reasons == ("Member 1: The process has not answered for 30 s.",)
    assert member(4, None).health(1.0).reasons == ("Member 4: The app is starting.",)


@pytest.mark.parametrize(
    ("code", "farewell", "kind", "words"),
    [
        (
            1,
            ("HandlerFailedError", "Handler failed.", "a.py:3"),
            HandlerFailedError,
            "failed (raised in a.py:3).",
        ),
        (3, ("TopicNotFoundError", "No topic.", ""), TopicNotFoundError, "Member 2: No topic."),
        (5, None, FencedError, "Member 2: it ended by exit code 5."),
        (2, ("NoError", "x", ""), ConfigurationError, "Member 2: x."),
        (4, ("HandlerFailedError", "x", ""), UnfinishedError, "Member 2: x."),
        (-9, None, UnfinishedError, "Member 2: it ended by signal SIGKILL."),
        (-60, None, UnfinishedError, "signal 60"),
        (99, None, EngineError, "exit code 99"),
    ],
)
def test_the_error_in_the_end_is_the_members(
    code: int, farewell: tuple[str, str, str] | None, kind: type, words: str
) -> None:
    """Of its kind where the code fits, with its number and where it was raised."""
    said = None if farewell is None else dict(zip(("kind", "text", "place"), farewell, strict=True))
    error = failure_of(2, code, said)
    assert type(error) is kind
    assert words in str(error)
    assert described(-9, None) == "signal SIGKILL"


def test_advice_has_the_numbers() -> None:
    """More members than partitions, and a session that a rolling restart may outlast."""
    settings = Settings(group="g", start="earliest", instance_id="a", stop_s=25.0)
    found = list(advice(6, {"orders": 4, "alerts": 1}, settings, session_s=6.0))
    assert len(found) == 2
    assert "2 of 6 members get no partition (orders has 4 partitions, alerts has 1 partition)" in found[0]
    assert "set members=4" in found[0]
    for part in ("6 s", "stop_s=25 s", "session.timeout.ms to 30000 or more"):
        assert part in found[1]
    assert list(advice(4, {"orders": 4}, replace(settings, stop_s=1.0), session_s=6.0)) == []
    assert list(advice(1, {"orders": 4}, replace(settings, instance_id=None), session_s=6.0)) == []


@pytest.mark.parametrize("given", [0, -1, "x", True, float("nan"), 1e9])
def test_a_time_to_hang_is_checked(given: Any) -> None:
    """In seconds."""
    with pytest.raises(ConfigurationError, match="hung_s="):
        checked_hung_s(given)
    assert checked_hung_s(30) == 30.0


def test_a_health_file_is_touched_now_and_then_while_live(tmp_path: Path) -> None:
    """And left alone while not; a folder that has gone ends nothing."""
    clock, path = VirtualClock(), tmp_path / "folder" / "live"
    path.parent.mkdir()
    file = HealthFile(path, clock.now_s)
    file.touch_if(lambda: False)
    assert not path.exists()
    clock.advance(TOUCHED_EVERY_S)
    file.touch_if(lambda: True)
    assert path.exists()
    path.unlink()
    file.touch_if(lambda: True)  # not due
    assert not path.exists()
    path.parent.rmdir()
    clock.advance(TOUCHED_EVERY_S)
    file.touch_if(lambda: True)


@pytest.mark.parametrize("path", ["", 7, "nowhere/live", "."])
def test_a_health_file_that_cannot_be_written_is_refused(path: Any) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigurationError, match="health_file"):
        HealthFile(path)
