"""Commits and losses: the smallest history that violates exactly one measure, and one that just does not."""

from __future__ import annotations

import pytest

from tests.kit.checker.verdict import Measure
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


def test_a_commit_passes_what_the_log_does_not_hold_once_that_was_reported() -> None:
    """Without the jump it is premature; what was produced there is lost, and unfinished records hold."""
    story = begun(0, 1).run(0).run(1)
    assert begun(0, 1).run(0).run(1).commit(9).verdict().violations == {"premature_commits": 1}
    assert story.jumped(9).commit(9).received(9).run(9).commit(10).verdict().ok
    assert begun(0).jumped(9).commit(9).verdict().violations == {"premature_commits": 1, "lost": 1}
    assert story.produced(5).verdict().violations == {"lost": 1, "unseen": 1}


@pytest.mark.parametrize("outcome", ["skipped", "dead-lettered"])
def test_every_outcome_saves_a_record_from_being_lost(outcome: str) -> None:
    """Skipped and dead-lettered records let the commit pass, started or not."""
    story = begun(0, 1).finish(0, outcome=outcome)
    story.start(1).finish(1, outcome="failed").finish(1, outcome=outcome)
    assert story.commit(2).verdict().ok


def test_commit_that_is_premature_when_requested_stays_so_when_acknowledged() -> None:
    """The record finished before the answer came, but the broker could have stored it before that."""
    verdict = begun(0).start(0).request(1).finish(0).acknowledge(1).verdict()
    assert verdict.violations == {"premature_commits": 1}
    [example] = verdict.examples[Measure.PREMATURE]
    assert example.startswith("readings[0] (epoch 1, pid 1): next_offset 1 was requested, which passes")
    assert example.endswith("offset 0, received and unfinished")


def test_commit_above_everything_received_is_premature() -> None:
    """One too far passes a record that nobody has seen yet."""
    verdict = begun(0, 1).run(0).run(1).commit(3).verdict()
    assert verdict.violations == {"premature_commits": 1}
    assert "offset 2, the first that was not received" in verdict.examples[Measure.PREMATURE][0]


def test_commit_acknowledged_after_a_later_owner_came_is_stale() -> None:
    """The paused process woke up and its commit got through: nothing fenced it."""
    story = begun(0).run(0).assigned(1, pid=2, at="0").commit(1)
    verdict = story.verdict()
    assert verdict.violations == {"stale_commits": 1}
    assert "assigned to pid 2" in verdict.examples[Measure.STALE][0]
