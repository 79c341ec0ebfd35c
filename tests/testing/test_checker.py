"""Commits and losses: the smallest history that violates exactly one measure, and one that just does not."""

from __future__ import annotations

import pytest

from ehkafka.testing.checker import history_event as events
from ehkafka.testing.checker.checker import Checker
from ehkafka.testing.checker.verdict import Measure
from tests.kit.story import PARTITION as P0
from tests.kit.story import Story


def begun(*offsets: int) -> Story:
    """Return a story in which process 1 owns the partition and received these records."""
    return Story().assigned().received(*offsets)


def test_orderly_run_is_ok_and_says_how_much_it_saw() -> None:
    """A verdict without its amounts would be ok for an empty history too."""
    verdict = begun(0, 1).produced(0, 1).run(0).run(1).commit(2).verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.received, verdict.finished, verdict.produced, verdict.epochs) == (2, 2, 2, 1)
    assert verdict.summary().startswith("ok: 2 of 2 received records finished")
    assert verdict.examples == {}


def test_lost_is_a_record_below_the_final_commit_without_outcome() -> None:
    """A commit passed offset 1, which nobody finished: the premature commit has become a loss."""
    verdict = begun(0, 1, 2).run(0).run(2, "other").commit(3).verdict()
    assert verdict.violations == {"lost": 1, "premature_commits": 1}
    assert verdict.examples[Measure.LOST] == ("readings[0]@1 has no outcome, but next_offset 3 is committed",)


def test_record_finished_by_another_process_is_not_lost() -> None:
    """The premature commit stays one, but in the end the work was done."""
    story = begun(0, 1, 2).run(0).run(2, "other").commit(3).killed(1)
    story.assigned(1, pid=2, at="1").received(1, pid=2).run(1, pid=2)
    assert story.verdict().violations == {"premature_commits": 1}


def test_produced_record_that_was_never_received_is_lost_below_the_commit() -> None:
    """A gap in what was received shows only against what was produced."""
    story = begun(0, 2).run(0).run(2).commit(3)
    assert story.verdict().ok
    assert story.produced(0, 1, 2).verdict().violations == {"lost": 1, "unseen": 1}


def test_a_commit_passes_what_the_log_does_not_hold_once_that_was_reported() -> None:
    """Without the jump it is premature; what was produced there is lost, and unfinished records hold."""
    story = begun(0, 1).run(0).run(1)
    assert begun(0, 1).run(0).run(1).commit(9).verdict().violations == {"premature_commits": 1}
    assert story.jumped(9).commit(9).received(9).run(9).commit(10).verdict().ok
    assert begun(0).jumped(9).commit(9).verdict().violations == {"premature_commits": 1, "lost": 1}
    assert story.produced(5).verdict().violations == {"lost": 1, "unseen": 1}


def test_returned_record_at_the_final_commit_is_not_lost() -> None:
    """It will be redelivered: the commit does not pass it."""
    verdict = begun(0, 1).run(0).start(1).revoked().commit(1).verdict()
    assert verdict.ok, verdict.report()


@pytest.mark.parametrize("outcome", ["skipped", "dead-lettered"])
def test_every_outcome_saves_a_record_from_being_lost(outcome: str) -> None:
    """Skipped and dead-lettered records let the commit pass, started or not."""
    story = begun(0, 1).finish(0, outcome=outcome)
    story.start(1).finish(1, outcome="failed").finish(1, outcome=outcome)
    assert story.commit(2).verdict().ok


def test_failed_attempt_is_no_outcome() -> None:
    """A commit past a record whose only attempt failed passes unfinished work, and loses it."""
    verdict = begun(0).start(0).finish(0, outcome="failed").commit(1).verdict()
    assert verdict.violations == {"lost": 1, "premature_commits": 1}


def test_late_acknowledgement_of_an_older_request_does_not_lower_the_final_commit() -> None:
    """The answers of an asynchronous and a synchronous commit can arrive the wrong way round."""
    story = begun(0, 1).run(0).request(1).run(1).request(2).acknowledge(2).acknowledge(1)
    assert story.received(2).start(2).produced(0, 1, 2).verdict().violations == {"unseen": 1}
    checker = Checker()
    for event in story.events:
        checker.observe(event)
    assert checker.partition(P0).committed == 2


def test_commit_that_is_premature_when_requested_stays_so_when_acknowledged() -> None:
    """The record finished before the answer came, but the broker could have stored it before that."""
    verdict = begun(0).start(0).request(1).finish(0).acknowledge(1).verdict()
    assert verdict.violations == {"premature_commits": 1}
    [example] = verdict.examples[Measure.PREMATURE]
    assert example.startswith("readings[0] (epoch 1, pid 1): next_offset 1 was requested, which passes")
    assert example.endswith("offset 0, received and unfinished")


def test_commit_up_to_the_oldest_unfinished_record_is_right() -> None:
    """next_offset equals the unfinished offset: redelivery begins with it."""
    assert begun(0, 1).run(0).start(1).commit(1).verdict().ok


def test_premature_commit_is_counted_once_although_judged_twice() -> None:
    """Request and acknowledgement are two looks at one commit."""
    assert begun(0, 1).run(1).commit(2).run(0, "x").verdict().premature_commits == 1


def test_acknowledgement_without_request_is_judged_too() -> None:
    """A history that forgot to tell the request does not hide a premature commit."""
    assert begun(0).start(0).acknowledge(1).finish(0).verdict().violations == {"premature_commits": 1}


def test_refused_premature_commit_counts() -> None:
    """A time-out says nothing about what the broker stored."""
    story = begun(0).start(0).request(1).add(events.CommitFailed, {P0: 1}, "timed out").finish(0)
    assert story.verdict().violations == {"premature_commits": 1}


def test_records_received_after_the_request_do_not_matter() -> None:
    """Between request and answer the poll loop goes on."""
    assert begun(0).run(0).request(1).received(1, 2).start(1).acknowledge(1).verdict().ok


def test_answer_that_arrives_in_the_next_epoch_is_judged_in_its_own() -> None:
    """The partition came back and older records are read again while the answer was under way."""
    story = begun(0, 1).run(0).run(1).request(2).revoked().assigned(2, at="0").received(0, 1, epoch=2)
    assert story.start(0, epoch=2).acknowledge(2).verdict().ok


def test_commit_in_a_new_epoch_counts_what_that_epoch_received() -> None:
    """Having finished a record in an older epoch does not help: this one has it in hand again."""
    story = begun(0).run(0).revoked().assigned(2, at="0").received(0, epoch=2).start(0, epoch=2)
    assert story.commit(1).verdict().violations == {"premature_commits": 1}


def test_commit_above_everything_received_is_premature() -> None:
    """One too far passes a record that nobody has seen yet."""
    verdict = begun(0, 1).run(0).run(1).commit(3).verdict()
    assert verdict.violations == {"premature_commits": 1}
    assert "offset 2, the first that was not received" in verdict.examples[Measure.PREMATURE][0]


def test_start_position_may_be_committed_before_anything_is_received() -> None:
    """Fixing where a group begins passes nothing; one further does."""
    assert Story().assigned(at="7").commit(7).verdict().ok
    assert Story().assigned(at="7").commit(8).verdict().violations == {"premature_commits": 1}
    assert Story().assigned(at="latest").commit(7).verdict().ok


def test_commit_acknowledged_after_a_later_owner_came_is_stale() -> None:
    """The paused process woke up and its commit got through: nothing fenced it."""
    story = begun(0).run(0).assigned(1, pid=2, at="0").commit(1)
    verdict = story.verdict()
    assert verdict.violations == {"stale_commits": 1}
    assert "assigned to pid 2" in verdict.examples[Measure.STALE][0]


def test_commit_acknowledged_before_the_later_owner_came_is_not_stale() -> None:
    """The order of a clean hand-over."""
    assert begun(0).run(0).commit(1).revoked().assigned(1, pid=2, at="1").verdict().ok


def test_answer_read_late_is_not_stale_if_the_new_owner_began_behind_it() -> None:
    """The broker had it in time, or the new owner would have begun at 0."""
    late = begun(0).run(0).request(1)
    assert late.assigned(1, pid=2, at="1").acknowledge(1).verdict().ok
    really_late = begun(0).run(0).request(1).assigned(1, pid=2, at="0").acknowledge(1)
    assert really_late.verdict().violations == {"stale_commits": 1}


def test_same_process_may_commit_across_its_own_epochs() -> None:
    """A later epoch of the same process is no later owner, unless another one was between."""
    own = begun(0).run(0).request(1).revoked().assigned(2, at="1").acknowledge(1)
    assert own.verdict().ok
    other = begun(0).run(0).request(1).revoked().assigned(1, pid=2, at="0").revoked(1, pid=2)
    assert other.assigned(2, at="0").acknowledge(1).verdict().violations == {"stale_commits": 1}
