"""The commit ledger: what is dirty, when it is sent, and what counts as committed."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from ehkafka.progress.ledger import REST_S, CommitLedger, CommitPacing, Position
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _ledger(committed: Position | None = None, **pacing: Any) -> CommitLedger:
    ledger = CommitLedger(CommitPacing(**pacing))
    ledger.assigned(P0, 1, committed)
    return ledger


def _at(next_offset: int, metadata: str | None = None, epoch: int = 1) -> dict[TopicPartition, Position]:
    return {P0: Position(epoch, next_offset, None, metadata)}


def _commit(ledger: CommitLedger, positions: dict[TopicPartition, Position], now_s: float) -> None:
    assert ledger.plan(positions, now_s, 0) == positions
    ledger.confirm(ledger.landed(), now_s)


@pytest.mark.parametrize(
    ("committed", "position", "is_dirty"),
    [
        (None, _at(10), True),
        (Position(1, 10), _at(10), False),
        (Position(1, 10), _at(11), True),
        (Position(1, 10), _at(10, "12-14"), True),
        (Position(1, 10, None, "12-14"), _at(10, "12-14"), False),
        (Position(1, 10), _at(9, "anything"), False),
        (None, {P1: Position(1, 10)}, False),
    ],
)
def test_what_differs_from_the_groups_commit_is_dirty(
    committed: Position | None, position: dict[TopicPartition, Position], is_dirty: bool
) -> None:
    """A next_offset that has grown, or other metadata; no lower one, and no partition of another member."""
    ledger = _ledger(committed)
    assert ledger.dirty(position) == (position if is_dirty else {})
    assert ledger.plan(position, 1.0, 0) == (position if is_dirty else {})


def test_an_unchanged_position_is_not_sent_again() -> None:
    """Neither next_offset nor metadata changed, so nothing is dirty."""
    ledger = _ledger()
    _commit(ledger, _at(10), 1.0)
    assert ledger.plan(_at(10), 2.0, 0) == {}
    assert ledger.in_flight is None
    assert ledger.dirty(_at(10)) == {}


def test_an_unchanged_position_is_sent_again_when_it_is_idle_for_long() -> None:
    """The group's offsets must not expire. The age of the first commit is not known: it goes once."""
    ledger = _ledger(Position(1, 10), idle_s=100.0)
    assert ledger.dirty(_at(10)) == {}
    assert ledger.plan(_at(9), 0.5, 0) == {}
    _commit(ledger, _at(10), 1.0)
    assert ledger.plan(_at(10), 100.9, 0) == {}
    _commit(ledger, _at(10), 101.0)
    assert ledger.plan(_at(10), 200.9, 0) == {}
    assert ledger.plan(_at(10), 201.0, 0) == _at(10)


@pytest.mark.parametrize(
    ("pacing", "due_s"), [({"interval_s": 1.0}, 1.0), ({"interval_s": 0.1, "spacing_s": 1.0}, 1.0)]
)
def test_a_commit_is_due_once_per_interval(pacing: dict[str, Any], due_s: float) -> None:
    """A plan starts the next interval although it sends nothing; the service's distance is the least."""
    ledger = _ledger(**pacing)
    assert ledger.due(0.0, 0)
    ledger.plan({}, 0.0, 0)
    assert not ledger.due(due_s - 0.001, 1_000_000)
    assert ledger.due(due_s, 0)
    assert ledger.next_due_s() == due_s


def test_at_rest_a_commit_is_due_once_a_record_has_ended() -> None:
    """No position changes before: to look at a thousand partitions each second would be in vain."""
    ledger = _ledger(interval_s=1.0)
    ledger.plan({}, 0.0, 7)
    assert not ledger.due(REST_S - 0.1, 7, is_at_rest=True)
    assert ledger.due(1.0, 7, is_at_rest=False)
    assert ledger.due(1.0, 8, is_at_rest=True)
    assert ledger.due(REST_S, 7, is_at_rest=True)


def test_the_texts_of_an_idle_partition_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ for as long as no commit is made for their facts alone."""
    ledger, read, position = _ledger(Position(1, 10, None, "one")), Mock(return_value=b""), _at(10, "other")
    monkeypatch.setattr("ehkafka.progress.ledger.without_facts", read)
    assert [ledger.dirty(position) for _ in range(9)] == [{}] * 9
    assert read.call_count == 2
    ledger.confirm({P0: Position(1, 10, None, "third")}, 1.0)
    assert (ledger.dirty(position), read.call_count) == ({}, 4)


def test_at_most_one_commit_is_in_flight_and_the_latest_wins() -> None:
    """While the broker takes its time nothing more is sent; then one request has all of it."""
    ledger = _ledger(interval_s=0.1)
    assert ledger.plan(_at(10), 0.0, 0) == _at(10)
    assert ledger.acknowledged(P0) is None
    for tenth in range(1, 11):
        assert not ledger.due(tenth / 10, 1_000 * tenth)
    ledger.confirm(ledger.landed(), 1.1)
    assert ledger.acknowledged(P0) == Position(1, 10)
    assert ledger.due(1.1, 10_000)
    assert ledger.plan(_at(900), 1.1, 10_000) == _at(900)


def test_a_failed_commit_stays_dirty() -> None:
    """It is sent again after a wait, which grows with each failure up to a bound."""
    ledger = _ledger(Position(1, 5), interval_s=1.0)
    ledger.plan(_at(10), 1.0, 0)
    ledger.landed()
    wait_s = ledger.failed(1.0)
    assert ledger.acknowledged(P0) == Position(1, 5)
    assert not ledger.due(1.0 + wait_s - 0.001, 0)
    assert ledger.due(1.0 + wait_s, 0)
    assert ledger.plan(_at(10), 1.0 + wait_s, 0) == _at(10)
    assert [ledger.failed(0.0) for _ in range(5)] == [2.0, 3.0, 4.0, 5.0, 5.0]
    ledger.confirm({}, 0.0)
    assert ledger.failed(0.0) == 1.0
    assert _ledger(interval_s=30.0).failed(0.0) == 30.0


def test_a_refused_commit_is_followed_by_another_however_idle_the_partition() -> None:
    """A refusal of what was already stored would else be the last word for hours, and health stay red."""
    ledger = _ledger(Position(1, 10), idle_s=100.0)
    assert ledger.plan(_at(10), 200.0, 0) == _at(10)
    ledger.landed()
    wait_s = ledger.failed(200.5)
    assert not ledger.due(200.4 + wait_s, 0)
    _commit(ledger, _at(10), 200.6 + wait_s)
    assert ledger.plan(_at(10), 210.0, 0) == {}


def test_an_unchanged_position_is_sent_once_where_an_answer_is_wanted() -> None:
    """Its acknowledgement ends a problem that no record would end; it never moves what is stored."""
    ledger = _ledger(Position(1, 10), interval_s=100.0)
    ledger.plan(_at(10), 1.0, 0)
    ledger.ask_for_proof()
    assert ledger.due(1.1, 0)
    assert ledger.plan(_at(9), 1.1, 0) == {}
    ledger.ask_for_proof()
    _commit(ledger, _at(10), 1.2)
    assert not ledger.due(1.3, 0)
    assert ledger.plan(_at(10), 101.3, 0) == {}


def test_a_late_acknowledgement_never_lowers_what_is_known() -> None:
    """The synchronous commit of a stop may overtake the asynchronous one's answer."""
    ledger = _ledger()
    ledger.plan(_at(10), 1.0, 0)
    ledger.confirm(_at(20), 1.1)
    ledger.confirm(ledger.landed(), 1.2)
    assert ledger.acknowledged(P0) == Position(1, 20)
    assert ledger.dirty(_at(15)) == {}


def test_an_acknowledgement_of_another_epoch_does_not_count() -> None:
    """Revoked, and perhaps assigned again: an answer to the old epoch's commit is ignored."""
    ledger = _ledger()
    ledger.plan(_at(10), 1.0, 0)
    ledger.ended(P0)
    ledger.confirm(_at(10), 1.1)
    assert ledger.acknowledged(P0) is None
    ledger.assigned(P0, 2, Position(2, 7))
    ledger.confirm(ledger.landed(), 2.1)
    assert ledger.acknowledged(P0) == Position(2, 7)


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_position_of_another_epoch_is_not_sent(epoch: int) -> None:
    """Neither an older nor an unknown epoch may commit."""
    ledger = _ledger()
    assert ledger.plan(_at(10, epoch=epoch), 1.0, 0) == {}
    assert ledger.dirty(_at(10, epoch=epoch)) == {}


def test_refused_metadata_is_not_offered_again_in_this_epoch() -> None:
    """What was too large goes without, and nothing as long is offered again; the next epoch may try."""
    ledger = _ledger()
    assert ledger.plan(_at(10, "long"), 1.0, 0) == _at(10, "long")
    ledger.refuse_metadata(ledger.landed())
    assert ledger.plan(_at(10, "long"), 2.0, 0) == _at(10)
    ledger.confirm(ledger.landed(), 2.1)
    assert ledger.plan(_at(10, "longer"), 3.0, 0) == {}
    assert ledger.dirty(_at(10, "cut")) == _at(10, "cut")
    ledger.ended(P0)
    ledger.assigned(P0, 2, None)
    assert ledger.plan(_at(10, "long", epoch=2), 5.0, 0) == _at(10, "long", epoch=2)


def test_a_position_goes_again_at_once_without_the_metadata_that_was_refused() -> None:
    """No back-off, no interval; only the distance that the service wants is kept."""
    ledger = _ledger(interval_s=60.0, spacing_s=1.0)
    ledger.plan(_at(10, "long"), 5.0, 0)
    ledger.refuse_metadata(ledger.landed())
    assert not ledger.due(5.9, 0)
    assert ledger.due(6.0, 0)
    _commit(ledger, _at(10), 6.0)
    assert not ledger.due(7.5, 0)


@pytest.mark.parametrize("keeps_ranges", [False, True])
def test_ranges_that_the_commit_has_no_room_for_are_dirty_only_if_a_mirror_keeps_them(
    keeps_ranges: bool,
) -> None:
    """The broker would store the same again; a listener would not."""
    before, after = ({P0: Position(1, 10, None, "text", ((12, end),))} for end in (14, 15))
    ledger = _ledger()
    ledger.keeps_ranges = keeps_ranges
    _commit(ledger, before, 1.0)
    assert ledger.dirty(before) == {}
    assert ledger.dirty(after) == (after if keeps_ranges else {})


def test_enough_finished_records_make_a_commit_due_early() -> None:
    """`every_records` counts from the last plan; where a commit takes long, the bound is a share of time."""
    ledger = _ledger(interval_s=1.0, every_records=100, spacing_s=0.05, early_at_a_share=True)
    ledger.plan(_at(1), 0.0, 50, early_at_s=0.3)
    ledger.confirm(ledger.landed(), 0.0)
    assert not ledger.due(0.29, 10_000)
    assert not ledger.due(0.3, 149)
    assert ledger.due(0.3, 150)
    ledger.plan(_at(2), 0.3, 150, early_at_s=7.0)
    ledger.confirm(ledger.landed(), 0.3)
    assert not ledger.due(1.29, 10_000)
    assert ledger.due(1.3, 10_000)


def test_a_synchronous_commit_leaves_the_one_in_flight_and_keeps_the_next_one_at_a_distance() -> None:
    """A revoke of one partition; a synchronous commit that had nothing to send changes nothing."""
    ledger = _ledger(interval_s=1.0, spacing_s=1.0)
    ledger.assigned(P1, 1, None)
    ledger.plan({P1: Position(1, 20)}, -1.0, 0)
    assert ledger.plan_now(_at(10), 0.5) == _at(10)
    ledger.confirm(_at(10), 0.5)
    ledger.ended(P0)
    assert ledger.landed() == {P1: Position(1, 20)}
    assert ledger.plan_now({}, 0.9) == ledger.landed() == {}
    assert not ledger.due(1.4, 0)
    assert ledger.due(1.5, 0)


def test_only_a_position_that_the_next_owner_does_not_find_again_is_missing() -> None:
    """Where it begins is committed, and nothing is lost if that never succeeds."""
    ledger = _ledger()
    assert ledger.missing(_at(10)) == _at(10)
    ledger.assigned(P0, 1, None, 10)
    assert ledger.dirty(_at(10)) == _at(10)
    assert ledger.missing(_at(10)) == {}
    for other in (_at(11), {P0: Position(1, 10, None, None, ((11, 12),))}):
        assert ledger.missing(other) == other


def test_detail_that_a_commit_went_without_makes_the_next_one_due_when_it_can_be_had() -> None:
    """Records that finished before a commit without ranges are not left out for another interval."""
    ledger = _ledger(interval_s=60.0, every_records=1)
    assert ledger.plan(_at(10), 1.0, 5, detail_at_s=1.5) == _at(10)
    ledger.confirm(ledger.landed(), 1.1)
    assert not ledger.due(1.4, 5)
    assert ledger.due(1.5, 5)
    _commit(ledger, _at(10, "12-15"), 1.5)
    assert not ledger.due(2.0, 0)
