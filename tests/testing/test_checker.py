"""What no random history of the oracle has: the smallest history for each rule, and its verdict."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ehkafka.records import TopicPartition
from tests.kit.checker import history_event as events
from tests.kit.checker.checker import Checker
from tests.kit.checker.verdict import Measure
from tests.kit.story import PARTITION as P0
from tests.kit.story import Story

P1 = TopicPartition("readings", 1)
BY_TOPIC = {"lane_scope": lambda partition: partition.topic}


def begun(*offsets: int) -> Story:
    """Return a story in which process 1 owns the partition and received these records."""
    return Story().assigned().received(*offsets)


def both() -> Story:
    """Return a story of two partitions with a record of one key in each."""
    return Story().assigned().assigned(on=P1).received(0).received(0, on=P1)


def moved(*, first: bool = False) -> Story:
    """Return a story in which process 2 got the partition of process 1 and did its one record."""
    story = begun(0).start(0) if first else begun(0)
    return story.revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, "z", pid=2)


STORIES = {
    "an orderly run says how much it saw": (
        begun(0, 1).produced(0, 1).run(0).run(1).commit(2),
        {},
        {"received": 2, "finished": 2, "produced": 2, "epochs": 1, "examples": {}},
    ),
    "a commit passes what the log does not hold once that was reported": (
        begun(0, 1).run(0).run(1).jumped(9).commit(9).received(9).run(9).commit(10),
        {},
        {},
    ),
    "a jump passes no unfinished record": (
        begun(0).jumped(9).commit(9),
        {},
        {"premature_commits": 1, "lost": 1},
    ),
    "a jump passes no record that was produced": (
        begun(0, 1).run(0).run(1).jumped(9).commit(9).produced(5),
        {},
        {"lost": 1, "unseen": 1},
    ),
    "a skipped and a dead-lettered record let the commit pass": (
        begun(0, 1).finish(0, outcome="skipped").start(1).finish(1, outcome="failed")
        .finish(1, outcome="dead-lettered").commit(2),
        {},
        {},
    ),
    "one key in two partitions is two keys": (
        both().start(0).start(0, on=P1).finish(0).finish(0, on=P1), {}, {},
    ),
    "one key in two partitions is one key in the handler's scope": (
        both().start(0).start(0, on=P1).finish(0).finish(0, on=P1), BY_TOPIC, {"order_violations": 1},
    ),
    "an ended epoch holds no shared lane": (both().start(0).revoked().run(0, on=P1).finish(0), BY_TOPIC, {}),
    "a parked record holds its shared lane": (
        both().start(0).finish(0, outcome="failed").run(0, on=P1).run(0, attempt=2),
        BY_TOPIC,
        {"order_violations": 1},
    ),
    "records without a key share a lane where the app asked for it": (
        begun(0, 1).start(1, None).start(0, None).finish(0, None).finish(1, None),
        {"null_key_ordered": True},
        {"order_violations": 1},
    ),
    "a duplicate after a kill lies within the bound": (
        begun(0, 1, 2, 3).run(0).commit(1).run(1).start(2).killed(1)
        .assigned(1, pid=2, at="1").received(1, 2, 3, pid=2).run(1, pid=2).run(2, pid=2),
        {},
        {"duplicates": 1, "duplicates_bound": 2},
    ),
    "a duplicate of committed work is unexplained": (
        begun(0).run(0).commit(1).revoked().assigned(1, pid=2, at="0").received(0, pid=2).run(0, pid=2),
        {},
        {"ok": False, "duplicates": 1, "duplicates_bound": 0, "duplicates_unexplained": 1},
    ),
    "a commit answered after the revoke lowers the bound": (
        begun(0).run(0).revoked().commit(1).assigned(1, pid=2, at="1"), {}, {"duplicates_bound": 0},
    ),
    "a second outcome in one epoch is a breach and unexplained": (
        begun(0).run(0).finish(0), {}, {"protocol_breaches": 1, "duplicates": 1, "duplicates_unexplained": 1},
    ),
    "a letter that was on its way as the epoch ended explains a duplicate": (
        moved().finish(0, "k", "dead-lettered"), {}, {"duplicates": 1, "duplicates_bound": 1},
    ),
    "a late skip explains none": (moved().finish(0, "k", "skipped"), {}, {"duplicates_unexplained": 1}),
    "a late end of a revoked record is a duplicate within the bound": (
        moved(first=True).finish(0), {}, {"duplicates": 1, "duplicates_bound": 1},
    ),
    "a repetition in one epoch is unexplained below the bound": (
        begun(0, 1).run(0).killed(1).assigned(1, pid=2, at="1").received(1, pid=2)
        .run(1, pid=2).finish(1, pid=2),
        {},
        {"protocol_breaches": 1, "duplicates": 1, "duplicates_bound": 1, "duplicates_unexplained": 1},
    ),
    "a record started too late to be stopped may repeat": (
        moved().start(0).finish(0), {}, {"duplicates": 1, "duplicates_bound": 1, "late_events": 1},
    ),
    "a rewind within an epoch explains its repetitions": (
        begun(0, 1).run(0).run(1).received(0, 1).run(0).run(1).commit(2),
        {},
        {"duplicates": 2, "duplicates_bound": 2},
    ),
    "expected offsets are owed like produced ones": (
        begun(0).run(0), {"expected": {P0: range(3)}}, {"unseen": 2},
    ),
    "two owners that run one key together are reported": (
        begun(0, 1).start(0).revoked().assigned(1, pid=2, at="0").received(0, 1, pid=2).start(0, pid=2),
        {},
        {"cross_epoch_overlaps": 1, "in_flight_at_end": 1},
    ),
    "a mirror equals the commit": (begun(0).run(0).commit(1).add(events.Mirrored, {P0: 1}), {}, {}),
    "a mirror is not ahead of the commit": (
        begun(0).run(0).commit(1).add(events.Mirrored, {P0: 2}), {}, {"mirror_ahead": 1},
    ),
    "a start without receipt is a breach": (Story().assigned().run(0), {}, {"protocol_breaches": 1}),
    "an epoch that was never assigned is a breach": (
        Story().received(0, 1).start(0).start(1), {}, {"protocol_breaches": 1, "order_violations": 1},
    ),
    "a torn line is counted": (Story().add(events.TornLine, "a.jsonl", 7), {}, {"torn_lines": 1}),
}  # fmt: skip


@pytest.mark.parametrize("rule", STORIES)
def test_the_smallest_history_of_a_rule_has_its_verdict(rule: str) -> None:
    """Each violation that a row does not name is absent, and `ok` follows from those that it names."""
    story, options, expected = STORIES[rule]
    verdict = story.verdict(**options)
    violated: dict[str, Any] = {name: expected[name] for name in expected if name in set(Measure)}
    amounts = {name: getattr(verdict, name) for name in expected if name != "examples"}
    assert amounts == {name: count for name, count in expected.items() if name != "examples"}
    assert verdict.violations.items() <= violated.items(), verdict.report()


def test_a_swap_is_found_however_many_keys_came_between() -> None:
    """Lanes are forgotten only when nothing below them is unfinished."""
    count = 5_000
    story = begun(*range(count + 1)).run(count, "late")
    for offset in range(1, count):
        story.run(offset, offset)
    assert story.run(0, "late").verdict().violations == {"order_violations": 1}


def test_memory_follows_what_is_unfinished_not_the_keys_seen() -> None:
    """A million keys, one at a time, leave nothing behind."""
    checker = Checker()
    process = checker.process("r", 1)
    process.assigned(P0, 1, "0")
    for offset in range(20_000):
        process.received(P0, 1, [offset])
        process.started(P0, 1, offset, f"key-{offset}", 1)
        process.finished(P0, 1, offset, f"key-{offset}", 1, "finished")
    [epoch] = checker.partition(P0).live
    assert len(epoch._lanes) <= 1_025
    assert epoch.unfinished == {}
    assert len(checker.partition(P0).done.ranges()) == 1


def test_a_verdict_in_the_middle_of_a_run_does_not_judge_unseen() -> None:
    """A record that is not finished yet is no violation while the run goes on."""
    checker = Checker(expected={P0: range(3)})
    assert checker.verdict(complete=False).ok
    assert not checker.verdict().ok


def test_examples_are_bounded_and_the_verdict_is_json() -> None:
    """Thousands of violations give a few sentences, and a report that any tool can read."""
    story = begun(*range(20))
    for offset in range(19, -1, -1):
        story.run(offset)
    verdict = story.verdict(examples_max=3)
    assert verdict.report().count("\n") == 3
    content = orjson.loads(orjson.dumps(verdict.as_dict()))
    assert (content["ok"], content["order_violations"]) == (False, 19)
    assert len(content["examples"]["order_violations"]) == 3
    assert verdict.summary().startswith("VIOLATED")
