"""The commit ledger: what is dirty, when it is sent, and what counts as committed."""

from __future__ import annotations

import pytest

from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.records import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _ledger(committed: Position | None = None, **pacing: float) -> CommitLedger:
    ledger = CommitLedger(CommitPacing(**pacing))  # type: ignore[arg-type]
    ledger.assigned(P0, 1, committed)
    return ledger


def _at(next_offset: int, metadata: str | None = None, epoch: int = 1) -> dict[TopicPartition, Position]:
    return {P0: Position(epoch, next_offset, None, metadata)}


def _commit(ledger: CommitLedger, positions: dict[TopicPartition, Position], now_s: float) -> None:
    assert ledger.plan(positions, now_s, 0) == positions
    ledger.confirm(ledger.landed(), now_s)


def test_an_unchanged_position_is_not_sent_again() -> None:
    """Neither next_offset nor metadata changed, so nothing is dirty."""
    ledger = _ledger()
    _commit(ledger, _at(10), 1.0)
    assert ledger.plan(_at(10), 2.0, 0) == {}
    assert ledger.in_flight is None
    assert ledger.dirty(_at(10)) == {}


def test_the_groups_own_commit_is_not_sent_back() -> None:
    """What was fetched at the assignment counts as stored."""
    ledger = _ledger(Position(1, 10))
    assert ledger.plan(_at(10), 1.0, 0) == {}
    assert ledger.plan(_at(11), 2.0, 0) == _at(11)


def test_changed_metadata_alone_is_dirty() -> None:
    """Finished ranges above an unmoved watermark are worth a commit."""
    ledger = _ledger(Position(1, 10))
    _commit(ledger, _at(10, "12-14"), 1.0)
    assert ledger.plan(_at(10, "12-14"), 2.0, 0) == {}
    assert ledger.plan(_at(10, "12-15"), 3.0, 0) == _at(10, "12-15")


def test_a_lower_position_is_never_offered() -> None:
    """next_offset is monotonic within an epoch."""
    ledger = _ledger(Position(1, 10))
    assert ledger.plan(_at(9, "anything"), 1.0, 0) == {}
    assert ledger.dirty(_at(9)) == {}


def test_an_unchanged_position_is_sent_again_when_it_is_idle_for_long() -> None:
    """The idle re-commit keeps the group's offsets from expiring, at its own interval."""
    ledger = _ledger(idle_s=100.0)
    _commit(ledger, _at(10), 1.0)
    assert ledger.plan(_at(10), 100.9, 0) == {}
    _commit(ledger, _at(10), 101.0)
    assert ledger.plan(_at(10), 200.9, 0) == {}
    assert ledger.plan(_at(10), 201.0, 0) == _at(10)


def test_an_idle_re_commit_never_lowers_the_group() -> None:
    """A position below the stored one is not sent because time passed."""
    ledger = _ledger(Position(1, 10), idle_s=100.0)
    assert ledger.plan(_at(9), 500.0, 0) == {}


def test_a_final_commit_ignores_the_idle_time() -> None:
    """A revoke or stop sends what changed and nothing else."""
    ledger = _ledger(Position(1, 10), idle_s=1.0)
    assert ledger.dirty(_at(10)) == {}
    assert ledger.dirty(_at(11)) == _at(11)


def test_a_commit_is_due_once_per_interval() -> None:
    """Planning, also in vain, starts the next interval."""
    ledger = _ledger(interval_s=1.0)
    assert ledger.due(0.0, 0)
    ledger.plan({}, 0.0, 0)
    assert not ledger.due(0.999, 0)
    assert ledger.due(1.0, 0)
    assert ledger.next_due_s() == 1.0


def test_at_most_one_commit_is_in_flight_and_the_latest_wins() -> None:
    """While the broker takes its time nothing more is sent; then one request has all of it."""
    ledger = _ledger(interval_s=0.1)
    assert ledger.plan(_at(10), 0.0, 0) == _at(10)
    for tenth in range(1, 11):
        assert not ledger.due(tenth / 10, 1_000 * tenth)
    ledger.confirm(ledger.landed(), 1.1)
    assert ledger.due(1.1, 10_000)
    assert ledger.plan(_at(900), 1.1, 10_000) == _at(900)


def test_nothing_counts_as_committed_before_the_answer() -> None:
    """A request in flight leaves the known position alone."""
    ledger = _ledger(Position(1, 5))
    ledger.plan(_at(10), 1.0, 0)
    assert ledger.acknowledged(P0) == Position(1, 5)
    assert ledger.dirty(_at(10)) == _at(10)
    ledger.confirm(ledger.landed(), 1.1)
    assert ledger.acknowledged(P0) == Position(1, 10)


def test_a_failed_commit_stays_dirty() -> None:
    """The same or a later offset is sent at the next interval."""
    ledger = _ledger(Position(1, 5), interval_s=1.0)
    ledger.plan(_at(10), 1.0, 0)
    ledger.landed()
    wait_s = ledger.failed(1.0)
    assert ledger.acknowledged(P0) == Position(1, 5)
    assert not ledger.due(1.0 + wait_s - 0.001, 0)
    assert ledger.due(1.0 + wait_s, 0)
    assert ledger.plan(_at(10), 1.0 + wait_s, 0) == _at(10)


def test_failures_in_a_row_wait_longer_and_an_answer_ends_that() -> None:
    """The wait grows to a bound, and a success starts it anew."""
    ledger = _ledger(interval_s=1.0)
    waits = [ledger.failed(0.0) for _ in range(10)]
    assert waits == sorted(waits)
    assert waits[0] == 1.0
    assert waits[-1] == 5.0
    assert ledger.next_due_s() == 5.0
    ledger.confirm({}, 0.0)
    assert ledger.due(1.0, 0)
    assert ledger.failed(0.0) == 1.0


def test_the_wait_after_a_failure_is_at_least_an_interval() -> None:
    """A long interval is not shortened by the bound."""
    assert _ledger(interval_s=30.0).failed(0.0) == 30.0


def test_a_late_acknowledgement_never_lowers_what_is_known() -> None:
    """The synchronous commit of a stop may overtake the asynchronous one's answer."""
    ledger = _ledger()
    ledger.plan(_at(10), 1.0, 0)
    ledger.confirm(_at(20), 1.1)
    ledger.confirm(ledger.landed(), 1.2)
    assert ledger.acknowledged(P0) == Position(1, 20)
    assert ledger.dirty(_at(15)) == {}


def test_an_acknowledgement_of_another_epoch_does_not_count() -> None:
    """Revoked and assigned again: an answer to the old epoch's commit is ignored."""
    ledger = _ledger()
    ledger.plan(_at(10), 1.0, 0)
    ledger.ended(P0)
    ledger.assigned(P0, 2, Position(2, 7))
    ledger.confirm(ledger.landed(), 2.1)
    assert ledger.acknowledged(P0) == Position(2, 7)


def test_an_acknowledgement_after_the_end_does_not_count() -> None:
    """A partition that is not ours has no known position."""
    ledger = _ledger()
    ledger.plan(_at(10), 1.0, 0)
    ledger.ended(P0)
    ledger.confirm(ledger.landed(), 1.1)
    assert ledger.acknowledged(P0) is None


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_position_of_another_epoch_is_not_sent(epoch: int) -> None:
    """Neither an older nor an unknown epoch may commit."""
    ledger = _ledger()
    assert ledger.plan(_at(10, epoch=epoch), 1.0, 0) == {}
    assert ledger.dirty(_at(10, epoch=epoch)) == {}


def test_a_position_of_a_partition_that_is_not_ours_is_not_sent() -> None:
    """Lost while the plan was made."""
    ledger = _ledger()
    assert ledger.plan({P1: Position(1, 10)}, 1.0, 0) == {}


def test_one_partitions_failure_leaves_the_others_acknowledgement() -> None:
    """A request that was stored in part confirms that part, and the rest is dirty."""
    ledger = _ledger()
    ledger.assigned(P1, 1, None)
    positions = {P0: Position(1, 10), P1: Position(1, 20)}
    ledger.plan(positions, 1.0, 0)
    carried = ledger.landed()
    ledger.confirm({P0: carried[P0]}, 1.1)
    ledger.failed(1.1)
    assert ledger.dirty(positions) == {P1: Position(1, 20)}


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
    assert ledger.plan(_at(10, "long"), 6.0, 0) == _at(10)
    ledger.confirm(ledger.landed(), 6.1)
    assert not ledger.due(7.5, 0)


def test_ranges_that_the_commit_has_no_room_for_are_dirty_only_if_somebody_keeps_them() -> None:
    """The broker would store the same again; a listener would not."""
    before = {P0: Position(1, 10, None, "text", ((12, 14),))}
    after = {P0: Position(1, 10, None, "text", ((12, 15),))}
    for keeps_ranges in (False, True):
        ledger = _ledger()
        ledger.keeps_ranges = keeps_ranges
        ledger.plan(before, 1.0, 0)
        ledger.confirm(ledger.landed(), 1.1)
        assert ledger.dirty(before) == {}
        assert ledger.dirty(after) == (after if keeps_ranges else {})


def test_enough_finished_records_make_a_commit_due_early() -> None:
    """`every_records` counts from the last plan."""
    ledger = _ledger(interval_s=60.0, every_records=100)
    ledger.plan(_at(1), 0.0, 50)
    ledger.confirm(ledger.landed(), 0.0)
    assert not ledger.due(0.5, 149)
    assert ledger.due(0.5, 150)
    ledger.plan(_at(150), 0.5, 150)
    ledger.confirm(ledger.landed(), 0.5)
    assert not ledger.due(0.6, 249)


def test_commits_that_are_early_take_a_share_of_the_time() -> None:
    """Where working out a commit takes long, the pace follows it; the interval does not."""
    ledger = _ledger(interval_s=1.0, every_records=100, spacing_s=0.05, early_at_a_share=True)
    ledger.plan(_at(1), 0.0, 0, early_at_s=0.3)
    ledger.confirm(ledger.landed(), 0.0)
    assert not ledger.due(0.29, 10_000)
    assert not ledger.due(0.3, 99)
    assert ledger.due(0.3, 100)
    ledger.plan(_at(2), 0.3, 100, early_at_s=7.0)
    ledger.confirm(ledger.landed(), 0.3)
    assert not ledger.due(1.29, 10_000)
    assert ledger.due(1.3, 10_000)


def test_commits_keep_their_spacing_however_many_records_finish() -> None:
    """Event Hubs' limit on calls per partition wins over `every_records` and a short interval."""
    ledger = _ledger(interval_s=0.1, every_records=1, spacing_s=1.0)
    ledger.plan(_at(1), 0.0, 1)
    ledger.confirm(ledger.landed(), 0.1)
    assert not ledger.due(0.999, 1_000_000)
    assert ledger.due(1.0, 1_000_000)


def test_a_final_commit_does_not_disturb_the_one_in_flight() -> None:
    """The synchronous commit of one partition's revoke leaves the answer of the other to come."""
    ledger = _ledger()
    ledger.assigned(P1, 1, None)
    ledger.plan({P1: Position(1, 20)}, 1.0, 0)
    assert ledger.dirty(_at(10)) == _at(10)
    ledger.confirm(_at(10), 1.1)
    ledger.ended(P0)
    assert ledger.landed() == {P1: Position(1, 20)}
    assert ledger.landed() == {}


def test_a_synchronous_commit_keeps_the_next_asynchronous_one_at_a_distance() -> None:
    """After the commit of a revoke the pace begins anew; one that had nothing to send changes nothing."""
    ledger = _ledger(interval_s=1.0, spacing_s=1.0)
    assert ledger.plan_now({}, 0.4) == {}
    assert ledger.due(0.5, 0)
    assert ledger.plan_now(_at(10), 0.5) == _at(10)
    assert not ledger.due(1.4, 0)
    assert ledger.due(1.5, 0)


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


def test_a_refused_commit_is_followed_by_another_however_idle_the_partition() -> None:
    """A refusal of what was already stored would else be the last word for hours, and health stay red."""
    ledger = _ledger(Position(1, 10), idle_s=100.0)
    assert ledger.plan(_at(10), 200.0, 0) == _at(10)
    ledger.landed()
    wait_s = ledger.failed(200.5)
    assert not ledger.due(200.4 + wait_s, 0)
    _commit(ledger, _at(10), 200.6 + wait_s)
    assert ledger.plan(_at(10), 210.0, 0) == {}


def test_the_groups_commit_counts_as_idle_for_too_long() -> None:
    """Nobody knows how old the commit of an earlier run is, so an idle position is sent once."""
    ledger = _ledger(Position(1, 10), idle_s=100.0)
    assert ledger.dirty(_at(10)) == {}
    _commit(ledger, _at(10), 1.0)
    assert ledger.plan(_at(10), 100.9, 0) == {}


def test_a_begin_that_the_next_owner_finds_again_is_missed_by_nobody() -> None:
    """It is committed, and nothing is lost if it never is; any other position is missed."""
    ledger = _ledger()
    assert ledger.missing(_at(10)) == _at(10)
    ledger.assigned(P0, 1, None, 10)
    assert ledger.dirty(_at(10)) == _at(10)
    assert ledger.missing(_at(10)) == {}
    assert ledger.missing(_at(11)) == _at(11)
    held_first = {P0: Position(1, 10, None, None, ((11, 12),))}
    assert ledger.missing(held_first) == held_first


def test_the_next_look_respects_the_spacing() -> None:
    """With a spacing above the interval nothing is due before it."""
    ledger = _ledger(interval_s=0.1, spacing_s=1.0)
    ledger.plan({}, 5.0, 0)
    assert ledger.next_due_s() == 6.0


def test_detail_that_a_commit_went_without_makes_the_next_one_due_when_it_can_be_had() -> None:
    """Records that finished before a commit without ranges are not left out for another interval."""
    ledger = _ledger(interval_s=60.0, every_records=1)
    assert ledger.plan(_at(10), 1.0, 5, detail_at_s=1.5) == _at(10)
    ledger.confirm(ledger.landed(), 1.1)
    assert not ledger.due(1.4, 5)
    assert ledger.due(1.5, 5)
    assert ledger.plan(_at(10, "12-15"), 1.5, 5) == _at(10, "12-15")
    ledger.confirm(ledger.landed(), 1.6)
    assert not ledger.due(2.0, 5)
