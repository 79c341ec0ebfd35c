"""Whether a broker answers, what the group has given, and what stands still: on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.intake.contact import Contact, Leader, read_statistics
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.positions.gap import LogBounds
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock


def statistics(*idles_us: int, join_state: str = "steady") -> str:
    """Return what librdkafka tells, as far as it is read."""
    brokers = ", ".join(f'"b{n}": {{ "state":"UP", "rxidle":{idle} }}' for n, idle in enumerate(idles_us))
    topics = '"t": { "partitions":{ "0": { "rxidle":1 } } }'
    group = f'"cgrp": {{ "state": "up", "join_state": "{join_state}" }}'
    return f'{{ "name": "c", "brokers":{{ {brokers} }}, "topics":{{ {topics} }}, {group} }}'


def pass_time(contact: Contact, clock: VirtualClock, seconds: float, turn_s: float = 0.25) -> None:
    """Let the poll loop come round for so long."""
    for _ in range(round(seconds / turn_s)):
        contact.note_turn()
        clock.advance(turn_s)


@pytest.fixture
def clock() -> VirtualClock:
    """Return the clock of the contact."""
    return VirtualClock()


@pytest.fixture
def contact(clock: VirtualClock) -> Contact:
    """Return what counts 15 s of silence."""
    return Contact(clock.now_s, 15.0)


def test_one_broker_that_answers_is_contact() -> None:
    """The latest answer counts; a broker that never answered (-1) says nothing."""
    assert read_statistics(statistics(9_000_000, 250_000, -1)).idle_s == 0.25
    assert read_statistics(statistics(-1)).idle_s is None
    named = '{ "client_id": ""brokers": x", "topics":{ } }'
    for other in ("{}", named, statistics(1).replace("{", "[", 3)):
        assert read_statistics(other).idle_s is None


def test_a_client_that_knows_no_broker_is_stranded(contact: Contact, clock: VirtualClock) -> None:
    """Its coordinator is left, which is no broker; a broker that is down, or unreadable text, is not that."""

    def of(*sources: str) -> str:
        brokers = ", ".join(f'"b{n}": {{ "source":"{source}" }}' for n, source in enumerate(sources))
        return f'{{ "name": "c", "brokers":{{ {brokers} }}, "topics":{{ }}, "cgrp": {{ }} }}'

    contact.take_statistics(of("logical"))
    pass_time(contact, clock, 20.0)
    assert contact.stranded_s == 20.0
    for text in (of("logical", "learned"), of("configured"), of(), "{}"):
        contact.take_statistics(of("logical"))
        contact.take_statistics(text)
        pass_time(contact, clock, 20.0)
        assert contact.stranded_s == 0.0


def test_the_newest_connection_is_known(contact: Contact, clock: VirtualClock) -> None:
    """Of each broker the statistics have its state: one that still logs in is not up."""
    brokers = (
        '"a/1":{ "state":"UP", "stateage":9000000, "rxidle":1 },'
        ' "b/2":{ "state":"AUTH_REQ", "stateage":1000, "rxidle":2 },'
        ' "GroupCoordinator":{"state":"UP","stateage":4000000,"rxidle":3}'
    )
    clock.advance(100.0)
    for text in (f'{{ "brokers":{{ {brokers} }}, "topics":{{}}, "cgrp": {{"stateage":7}} }}', statistics(1)):
        contact.take_statistics(text)
        assert contact.up_at_s == pytest.approx(clock.now_s() - 4.0)


def test_each_leader_has_its_own_silence(contact: Contact, clock: VirtualClock) -> None:
    """One that answers hides no other one; a partition without a leader keeps the one that it had."""
    leads = '"toppars":{{ "t-{0}":{{ "topic":"t", "partition":{0} }} }}'
    one = '"{0}":{{ "nodeid":{0}, "nodename":"b{0}:9092", "state":"UP", "rxidle":{1}, {2} }}'
    both = ", ".join((one.format(1, 500_000, leads.format(0)), one.format(2, 9_000_000, leads.format(1))))
    clock.advance(100.0)
    contact.take_statistics(f'{{ "brokers":{{ {both} }}, "topics":{{ }} }}')
    now_s, p0, p1 = clock.now_s(), TopicPartition("t", 0), TopicPartition("t", 1)
    first = Leader("broker 1 (b1:9092)", now_s - 0.5)
    assert contact.leaders == {p0: first, p1: Leader("broker 2 (b2:9092)", now_s - 9.0)}
    clock.advance(5.0)
    contact.take_statistics(f'{{ "brokers":{{ {one.format(2, -1, leads.format(1))} }}, "topics":{{ }} }}')
    assert contact.leaders == {p0: first, p1: Leader("broker 2 (b2:9092)", float("-inf"))}
    braces = f'{{ "brokers":{{ {one.format(2, 1, leads.format(1)).replace("t-", "t{")} }}, "topics":{{ }} }}'
    assert not read_statistics(braces).leaders


def test_silence_counts_from_the_last_answer(contact: Contact, clock: VirtualClock) -> None:
    """A broker that is frozen for 14 s is no reason, one that is for 15 s is."""
    for _ in range(5):
        pass_time(contact, clock, 2.5)
        contact.take_statistics(statistics(1_000_000))
    for checks in range(1, 6):
        pass_time(contact, clock, 2.5)
        contact.take_statistics(statistics(1_000_000 + checks * 2_500_000))
    assert contact.silence_s == pytest.approx(13.5)
    assert not contact.is_cut_off
    owned = OwnedPartitions()
    assert contact.new_silences(owned, "here") == []
    pass_time(contact, clock, 1.5)
    assert contact.is_unreachable
    assert [len(contact.new_silences(owned, "here")) for _ in range(3)] == [1, 0, 0]
    contact.take_statistics(statistics(10_000))
    assert not contact.is_unreachable


@pytest.mark.parametrize("stopped_s", [20.0, 3600.0])
@pytest.mark.parametrize("came", ["nothing", "the stop", "what came before", "an answer since"])
def test_a_time_in_which_the_process_did_not_run_is_no_silence(
    contact: Contact, clock: VirtualClock, came: str, stopped_s: float
) -> None:
    """The first statistics may include it, and may be older than it; the second ones have an answer."""
    pass_time(contact, clock, 60.0)
    contact.take_statistics(statistics(500_000))
    contact.note_turn()
    clock.advance(stopped_s)  # within `consume()`
    owned, partition = OwnedPartitions(), TopicPartition("t", 0)
    owned[partition] = OwnedPartition(None, None)  # type: ignore[arg-type]
    owned.logs.answered(partition, LogBounds(0, 9), clock.now_s() - stopped_s)
    idles_s = {"the stop": stopped_s + 0.5, "what came before": 0.5, "an answer since": 0.001}
    if came in idles_s:
        contact.take_statistics(statistics(round(idles_s[came] * 1e6)))
    for _ in range(10):  # at once, and while the next answer is on its way
        assert (contact.is_unreachable, contact.is_cut_off, contact.silence_s < 5.0) == (False, False, True)
        assert contact.new_silences(owned, "here") == []
        pass_time(contact, clock, 0.25)
    assert contact.is_blind == (came in ("nothing", "the stop"))
    contact.take_statistics(statistics(100_000))
    assert (contact.is_blind, contact.silence_s) == (False, pytest.approx(0.1))


@pytest.mark.parametrize("turn_s", [0.05, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("stopped_s", [0.0, 40.0])
def test_a_silent_broker_is_reported_whatever_the_process_does(
    contact: Contact, clock: VirtualClock, stopped_s: float, turn_s: float
) -> None:
    """In time where its loop comes round; a turn that takes long counts for a twelfth of the limit."""
    pass_time(contact, clock, 60.0)
    contact.take_statistics(statistics(0))
    pass_time(contact, clock, 5.0)
    contact.note_turn()
    clock.advance(stopped_s)
    silent_s, owned, turns = 5.0 + stopped_s, OwnedPartitions(), 0
    while not contact.new_silences(owned, "here"):
        contact.take_statistics(statistics(round(silent_s * 1e6)))
        pass_time(contact, clock, turn_s, turn_s)
        silent_s, turns = silent_s + turn_s, turns + 1
    expected_s = 15.0 - 5.0 - min(stopped_s, 1.25)
    assert turns * min(turn_s, 1.25) == pytest.approx(expected_s, abs=turn_s + 0.01)
    assert contact.silence_s >= 15.0


def test_who_waits_to_join_is_owed_no_answer_yet(contact: Contact, clock: VirtualClock) -> None:
    """A group's coordinator may wait minutes for other members; but it ends no long silence."""
    for _ in range(20):
        pass_time(contact, clock, 2.5)
        contact.take_statistics(statistics(50_000_000, join_state="wait-join"))
    assert not contact.is_unreachable
    pass_time(contact, clock, 15.0)
    contact.take_statistics(statistics(65_000_000, join_state="wait-join"))
    assert contact.is_unreachable


def test_a_commit_is_an_answer_and_connections_that_are_lost_make_lag_unknown(
    contact: Contact, clock: VirtualClock
) -> None:
    """Where logs end is unknown once all connections are gone, long before that is a reason."""
    contact.check(1, 0.0)
    clock.advance(10.0)
    contact.check(2, 0.0)
    assert contact.silence_s == 0.0
    contact.note_down()
    assert contact.is_cut_off
    assert not contact.is_unreachable
    # A commit that was acknowledged before the loss may be seen after it.
    contact.check(3, 0.0)
    clock.advance(2.0)
    contact.take_statistics(statistics(2_500_000))
    assert contact.is_cut_off
    contact.take_statistics(statistics(500_000))
    assert not contact.is_cut_off


def test_lost_partitions_are_missed_until_the_group_answers(contact: Contact, clock: VirtualClock) -> None:
    """A revoke is no loss; a loss ends with the next assignment, be it empty: then it is a standby."""
    assert not contact.is_member
    contact.note_assigned()
    contact.note_gone(4, left=0, lost=False)
    assert (contact.lost_s, contact.is_member) == (None, False)
    contact.note_assigned()
    contact.note_gone(3, left=0, lost=True)
    clock.advance(20.0)
    assert (contact.lost_s, contact.lost_partitions) == (20.0, 3)
    contact.take_statistics(statistics(1, join_state="init"))
    assert contact.lost_s == 20.0
    contact.take_statistics(statistics(1))
    assert (contact.lost_s, contact.is_member) == (None, True)


def test_the_users_statistics_reach_the_user_too(contact: Contact) -> None:
    """Their `stats_cb` goes on being called, at least as often as they asked for."""
    reported: list[str] = []
    properties: dict[str, Any] = {"stats_cb": reported.append, "statistics.interval.ms": 60_000}
    contact.with_statistics(properties)(statistics(1))
    assert reported == [statistics(1)]
    assert properties == {"statistics.interval.ms": 2_500}


def test_stranded_reads_what_the_poll_thread_may_clear_once() -> None:
    """Any thread asks."""
    reads = iter([1.0])

    class Cleared(Contact):
        @property
        def _stranded_since_s(self) -> float | None:
            return next(reads, None)

        @_stranded_since_s.setter
        def _stranded_since_s(self, since_s: float | None) -> None: ...

    assert Cleared(lambda: 5.0).stranded_s == 4.0
