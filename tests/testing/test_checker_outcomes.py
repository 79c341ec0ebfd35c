"""Duplicates, unseen records, overlapping epochs, breaches: what violates each, and what just does not."""

from __future__ import annotations

import orjson

from tests.kit.checker import history_event as events
from tests.kit.checker.checker import Checker
from tests.kit.checker.verdict import Measure
from tests.kit.story import PARTITION as P0
from tests.kit.story import Story


def begun(*offsets: int) -> Story:
    """Return a story in which process 1 owns the partition and received these records."""
    return Story().assigned().received(*offsets)


def test_duplicate_after_a_kill_lies_within_the_bound() -> None:
    """Offsets 1 and 2 were finished or in flight and uncommitted; both may come again, 0 may not."""
    story = begun(0, 1, 2, 3).run(0).commit(1).run(1).start(2).killed(1)
    story.assigned(1, pid=2, at="1").received(1, 2, 3, pid=2).run(1, pid=2).run(2, pid=2)
    verdict = story.verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound) == (1, 2)
    assert verdict.examples[Measure.DUPLICATE] == (
        "readings[0]@1 key 'k' (epoch 1, pid 2) finished once more",
    )


def test_duplicate_of_committed_work_is_unexplained() -> None:
    """Everything was committed when the process ended: a repetition has no excuse."""
    story = begun(0).run(0).commit(1).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, pid=2)
    verdict = story.verdict()
    assert verdict.violations == {}
    assert (verdict.duplicates, verdict.duplicates_bound, verdict.duplicates_unexplained) == (1, 0, 1)
    assert not verdict.ok


def test_commit_answered_after_the_revoke_still_lowers_the_bound() -> None:
    """The synchronous commit of a revoke may be reported after it; the next assignment closes the account."""
    story = begun(0).run(0).revoked().commit(1).assigned(1, pid=2, at="1")
    assert story.verdict().duplicates_bound == 0


def test_second_outcome_in_one_epoch_is_a_breach_and_unexplained() -> None:
    """Nothing redelivers within an epoch."""
    verdict = begun(0).run(0).finish(0).verdict()
    assert verdict.violations == {"protocol_breaches": 1}
    assert (verdict.duplicates, verdict.duplicates_unexplained) == (1, 1)


def test_a_letter_that_was_on_its_way_as_the_epoch_ended_explains_a_duplicate() -> None:
    """A diverted record is dead-lettered without a start: nobody could know that it had begun."""
    story = begun(0).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, "z", pid=2)
    verdict = story.finish(0, "k", "dead-lettered").verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound) == (1, 1)
    late = begun(0).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, "z", pid=2)
    assert late.finish(0, "k", "skipped").verdict().duplicates_unexplained == 1


def test_late_end_of_a_revoked_record_is_a_duplicate_within_the_bound() -> None:
    """The handler outlived its epoch; the new owner did the record too."""
    story = begun(0).start(0).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, "z", pid=2)
    verdict = story.finish(0).verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound) == (1, 1)


def test_repetition_in_one_epoch_is_unexplained_even_below_the_bound() -> None:
    """What another epoch left uncommitted is no excuse for it."""
    story = begun(0, 1).run(0).killed(1).assigned(1, pid=2, at="1").received(1, pid=2)
    verdict = story.run(1, pid=2).finish(1, pid=2).verdict()
    assert (verdict.duplicates, verdict.duplicates_bound, verdict.duplicates_unexplained) == (1, 1, 1)


def test_record_started_too_late_to_be_stopped_may_repeat() -> None:
    """The new owner is there already when a slow worker begins a record of the ended epoch."""
    story = begun(0).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, pid=2)
    verdict = story.start(0).finish(0).verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound, verdict.late_events) == (1, 1, 1)


def test_rewind_within_an_epoch_explains_its_repetitions() -> None:
    """An operator's rewind reads finished records again, in their old order."""
    story = begun(0, 1).run(0).run(1).received(0, 1).run(0).run(1).commit(2)
    verdict = story.verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound) == (2, 2)


def test_unseen_is_produced_and_never_finished() -> None:
    """Received or not, it has no outcome at the end."""
    story = begun(0).produced(0, 1).run(0)
    verdict = story.verdict()
    assert verdict.violations == {"unseen": 1}
    assert verdict.examples[Measure.UNSEEN] == (
        "readings[0]@1 was produced and has no outcome (never received)",
    )
    assert story.received(1).run(1).verdict().ok


def test_expected_offsets_are_owed_like_produced_ones() -> None:
    """A harness may know the log without having produced it."""
    verdict = begun(0).run(0).verdict(expected={P0: range(3)})
    assert verdict.violations == {"unseen": 2}


def test_verdict_in_the_middle_of_a_run_does_not_judge_unseen() -> None:
    """What is not finished yet is no violation while the run goes on."""
    checker = Checker(expected={P0: range(3)})
    assert checker.verdict(complete=False).ok
    assert not checker.verdict().ok


def test_old_and_new_owner_running_one_key_together_is_reported() -> None:
    """No client can prevent it; it is counted beside what was in flight when the epoch ended."""
    story = begun(0, 1).start(0).revoked().assigned(1, pid=2, at="0").received(0, 1, pid=2)
    verdict = story.start(0, pid=2).verdict()
    assert verdict.ok, verdict.report()
    assert (verdict.cross_epoch_overlaps, verdict.in_flight_at_end) == (1, 1)
    assert "pid 1" in verdict.examples[Measure.CROSS_EPOCH][0]


def test_mirror_must_not_be_ahead_of_the_commit() -> None:
    """The mirror may equal what the group committed, never pass it."""
    story = begun(0, 1).run(0).run(1).commit(1).add(events.Mirrored, {P0: 1})
    assert story.verdict().ok
    assert story.add(events.Mirrored, {P0: 2}).verdict().violations == {"mirror_ahead": 1}


def test_start_without_receipt_is_a_breach() -> None:
    """A history that leaves things out must not look fine."""
    assert Story().assigned().run(0).verdict().violations == {"protocol_breaches": 1}


def test_use_of_an_epoch_that_was_never_assigned_is_a_breach() -> None:
    """The same, for assignments; the records are still judged."""
    story = Story().received(0, 1).start(0).start(1)
    assert story.verdict().violations == {"protocol_breaches": 1, "order_violations": 1}


def test_events_of_an_ended_epoch_are_late_not_wrong() -> None:
    """Worker threads race with the revoke; the contract allows it and the verdict tells."""
    story = begun(0).revoked().start(0).assigned(2, at="0").received(0, epoch=2).run(0, "z", epoch=2)
    verdict = story.finish(0).start(0).verdict()
    assert verdict.ok, verdict.report()
    assert verdict.late_events == 2


def test_torn_line_is_counted_and_named() -> None:
    """The line was being written when the process died; nothing depends on it."""
    verdict = Story().add(events.TornLine, "a.jsonl", 7).verdict()
    assert verdict.ok
    assert verdict.examples[Measure.TORN] == ("a.jsonl, line 7 was not written to its end",)


def test_examples_are_bounded_and_the_verdict_is_json() -> None:
    """Thousands of violations give a few sentences, and a report that any tool can read."""
    story = begun(*range(20))
    for offset in range(19, -1, -1):
        story.run(offset)
    verdict = story.verdict(examples_max=3)
    assert verdict.order_violations == 19
    assert len(verdict.examples[Measure.ORDER]) == 3
    assert verdict.report().count("\n") == 3
    content = orjson.loads(orjson.dumps(verdict.as_dict()))
    assert content["ok"] is False
    assert content["order_violations"] == 19
    assert len(content["examples"]["order_violations"]) == 3
    assert verdict.summary().startswith("VIOLATED")
