"""What breaks a promise is seen, each kind by its name, in topics and commits that are made up."""

from __future__ import annotations

import math
import time
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.progress.metadata import NOTHING_KNOWN, encode
from tests.proof.end_to_end import EndToEnd
from tests.proof.reader import Commit, Sums, commit_of
from tests.proof.seen import Names, Seen
from tests.proof.verdict import Order, Verdict
from tests.proof.violations import Violations

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Commit(0, ())
RIGHT = ["0 0", "1 0", "1 1"]


class Message:
    """A message of a topic, as a reader gets it."""

    def __init__(self, partition: int, offset: int, value: str, key: str = "a", **headers: str) -> None:
        self.topic = lambda: "level-1"
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.value = value.encode
        self.key = key.encode
        self.headers = lambda: [(name.replace("_", "-"), text.encode()) for name, text in headers.items()]


def verdict_of(
    outputs: list[str],
    actions: str = "12",
    letters: tuple[int, ...] = (),
    **how: Any,
) -> Verdict:
    """Return what is seen where inputs of a key ask for these actions; outputs are `offset place`."""
    seen = Seen(0, Names(), 1)
    for offset, action in enumerate(actions):
        seen.input(Message(0, offset, f"{offset + 1} - {action} 0"))
    for at, text in enumerate(outputs):
        offset, place = map(int, text.split())
        times = how.get("times", {}).get(at, f"m {10 * at} {10 * at + 5}")
        value = f"{offset + 1} {place} {actions[offset]} 0 0 {offset} {times}"
        seen.output(Message(how.get("to", [0] * 9)[at], at, value))
    for at, offset in enumerate(letters):
        where = {"ehkafka_origin_partition": "0", "ehkafka_origin_offset": str(offset)}
        seen.letter(Message(0, at, "", **where))
    return Verdict(seen, Violations(), exactly_once=how.get("exactly_once", False))


@pytest.mark.parametrize(
    ("see", "violations"),
    [
        (partial(verdict_of, RIGHT), {}),
        (partial(verdict_of, ["0 0", "1 0"]), {"lost": 1}),
        (partial(verdict_of, ["0 0", "1 1", "1 0"]), {"order": 1, "last": 1}),
        (partial(verdict_of, ["1 0", "0 0", "1 0", "1 1"]), {"order": 1}),
        (partial(verdict_of, ["0 0", "0 0", *RIGHT]), {}),
        (partial(verdict_of, [*RIGHT, *RIGHT]), {}),
        (partial(verdict_of, [*RIGHT, "1 0"]), {"last": 1}),
        (partial(verdict_of, RIGHT, to=[0, 1, 1]), {"two_partitions": 1}),
        (partial(verdict_of, ["0 0", *RIGHT], exactly_once=True), {"repeated": 1}),
        (partial(verdict_of, RIGHT, letters=(0,)), {"unexpected": 1}),
        (partial(verdict_of, [], "d"), {"lost": 1}),
        (partial(verdict_of, [], "d", (0,)), {}),
        (partial(verdict_of, [], "d", (0, 0)), {}),
        (partial(verdict_of, [], "ddd", (0, 1, 0, 1, 2)), {}),
        (partial(verdict_of, [], "ddd", (0, 2, 1)), {"letters_order": 1}),
        # A key does not wait for the dead letter of an output that is refused.
        (partial(verdict_of, [], "dLd", (0, 2, 1)), {}),
        (partial(verdict_of, [], "d", (0, 0), exactly_once=True), {"repeated": 1}),
        (partial(verdict_of, ["0 9"], "d", (0,)), {"unexpected": 1}),
        (partial(verdict_of, ["0 0"], "B", (0,)), {}),
        (partial(verdict_of, ["0 0", "0 1"], "B", (0,)), {"unexpected": 1}),
        (partial(verdict_of, RIGHT, times={1: "m 4 9"}), {"overlap": 1}),
        # Of another member, which no generation allows to be ours; and the records of one batch.
        (partial(verdict_of, RIGHT, times={1: "n 4 9"}), {}),
        (partial(verdict_of, RIGHT, times={1: "m 0 9"}), {}),
    ],
)
def test_what_is_wrong_at_the_end(see: Callable[[], Verdict], violations: dict[str, int]) -> None:
    """Repeats are right at least once, as long as a key ends with its last output."""
    verdict = see()
    verdict.judge()
    assert verdict.violations.counts == violations, verdict.violations.shown


def test_records_that_two_members_handle_at_once_are_counted() -> None:
    """One of them was frozen, or had lost its partition."""
    assert verdict_of(RIGHT, times={1: "n 4 9"}).seen.overlaps_of_two == 1


@pytest.mark.parametrize(
    ("commit", "violations"),
    [
        (NOTHING, {"uncovered": 1}),
        (Commit(1, ()), {}),
        (Commit(0, ((0, 1),)), {}),
        (Commit(2, ()), {"early": 1}),
        (Commit(1, ((1, 2),)), {"early": 1}),
    ],
)
def test_what_is_wrong_with_a_commit(commit: Commit, violations: dict[str, int]) -> None:
    """The first input has its output, the second one has one of two."""
    verdict = verdict_of(["0 0", "1 0"], exactly_once=True)
    sent = verdict.seen.take_fresh() - {(0, 1)}
    verdict.check([commit], sent)
    assert verdict.violations.counts == violations, verdict.violations.shown


def test_a_commit_whose_text_cannot_be_read() -> None:
    """A commit by hand has none; one of another offset says nothing, and neither does a damaged one."""
    verdict = verdict_of(RIGHT)
    text = encode(1, NOTHING_KNOWN, ((3, 5),), None, 4096).text
    assert text is not None
    assert commit_of(1, text) == Commit(1, ((3, 5),))
    verdict.check([commit_of(1, "")], set())
    assert not verdict.violations.counts
    for next_offset, said in ((2, text), (1, text[:-1]), (0, "hello")):
        verdict.check([commit_of(next_offset, said)], set(), is_calm=False)
    assert verdict.violations.counts == {"text": 3}, verdict.violations.shown


@pytest.mark.parametrize(("exactly_once", "violations"), [(True, {"uncovered": 1}), (False, {})])
def test_what_is_read_before_a_commit_is_covered_by_it_exactly_once(
    exactly_once: bool, violations: dict[str, int]
) -> None:
    """At least once, an output is sent before."""
    verdict = verdict_of(RIGHT[:1], exactly_once=exactly_once)
    verdict.check([NOTHING], verdict.seen.take_fresh())
    assert verdict.violations.counts == violations
    assert not verdict.seen.take_fresh()


def test_a_commit_that_goes_back() -> None:
    """However far the next one goes."""
    verdict = verdict_of(RIGHT)
    for next_offset in (2, 1, 2):
        verdict.check([Commit(next_offset, ())], set())
    assert verdict.violations.counts == {"back": 1}


@pytest.mark.parametrize(("later", "violations"), [(2, {}), (1, {"early": 1, "back": 1})])
def test_what_looks_wrong_while_a_node_may_answer_that_leads_no_longer(
    later: int, violations: dict[str, int]
) -> None:
    """It is looked at again when it is calm; by then its outputs are there and the commit stands, or not."""
    verdict = verdict_of(RIGHT[:1])
    for next_offset in (2, 1):
        verdict.check([Commit(next_offset, ())], set(), is_calm=False)
    assert verdict.doubted == 2
    if not violations:
        verdict.seen.take_fresh()
        verdict.seen.output(Message(0, 1, "2 0 2 0 0 1 m 10 11"))
        verdict.seen.output(Message(0, 2, "2 1 2 0 0 1 m 10 11"))
    verdict.check([Commit(later, ())], set())
    assert verdict.violations.counts == violations, verdict.violations.shown


@pytest.mark.parametrize("is_calm", [True, False])
@pytest.mark.parametrize(
    ("commit", "actions", "outputs", "violations"),
    [
        (Commit(2, ()), "12", ["2 0 2 0 0 1 m 10 99", "2 1 2 0 0 1 m 10 99"], {}),
        (Commit(2, ()), "12", ["2 0 2 0 0 1 m 10 99", "2 1 2 0 0 1 m 10 101"], {"early": 1}),
        (Commit(0, ((1, 2),)), "12", ["2 0 2 0 0 1 m 10 101", "2 1 2 0 0 1 m 10 101"], {"early": 1}),
        (Commit(1, ()), "12", ["2 0 2 0 0 1 m 10 101", "2 1 2 0 0 1 m 10 101"], {}),
        # It comes again, which a member that was frozen may do.
        (Commit(1, ()), "12", ["1 0 1 0 0 0 m 10 101"], {}),
        # What goes with a refused output may be seen at any time.
        (Commit(2, ()), "1B", ["2 0 B 0 0 1 m 10 101"], {}),
    ],
)
def test_an_output_of_a_call_that_ended_after_a_commit_was_read_that_calls_it_finished(
    commit: Commit, actions: str, outputs: list[str], violations: dict[str, int], *, is_calm: bool
) -> None:
    """The commits were read at 100 ns, the outputs behind them."""
    verdict = verdict_of(RIGHT[:1], actions, (1,) if "B" in actions else ())
    verdict.seen.take_fresh()
    for at, text in enumerate(outputs, 1):
        verdict.seen.output(Message(0, at, text))
    verdict.check([commit], set(), is_calm=is_calm, read_ns=100)
    assert verdict.violations.counts == violations, verdict.violations.shown


@pytest.mark.parametrize(("end_ns", "violations"), [(99, {}), (101, {"early": 1})])
def test_an_output_that_comes_while_its_commit_is_doubted(end_ns: int, violations: dict[str, int]) -> None:
    """A commit was read at 100 ns; what a node did not show then was sent before, or it is early."""
    verdict = verdict_of(RIGHT[:1])
    verdict.seen.take_fresh()
    verdict.check([Commit(2, ())], set(), is_calm=False, read_ns=100)
    verdict.check([Commit(2, ())], set(), is_calm=False, read_ns=200)
    for place in (0, 1):
        verdict.seen.output(Message(0, 1 + place, f"2 {place} 2 0 0 1 m 10 {end_ns}"))
    verdict.check([Commit(2, ())], set(), is_calm=False, read_ns=300)
    assert verdict.violations.counts == violations, verdict.violations.shown


def test_when_an_output_may_have_been_refused() -> None:
    """From when its record is read until its dead letter is, and as long as is asked for; by partition."""
    verdict = verdict_of([], "1B1")
    seen, before_s = verdict.seen, time.monotonic()
    assert seen.refuses({0}, math.inf)
    assert not seen.refuses({1}, -math.inf)
    seen.letter(Message(0, 0, "", ehkafka_origin_partition="0", ehkafka_origin_offset="1"))
    assert seen.refuses({0}, before_s)
    assert not seen.refuses({0}, time.monotonic() + 1)
    # Its dead letter was read before it, from another topic.
    seen.letter(Message(0, 1, "", ehkafka_origin_partition="0", ehkafka_origin_offset="3"))
    seen.input(Message(0, 3, "4 - L 0"))
    assert not seen.refuses({0}, time.monotonic() + 1)


def test_a_hole_is_no_record() -> None:
    """Transactions leave some in the inputs of a level behind the first; one that has an output is none."""
    verdict = verdict_of([])
    verdict.seen.input(Message(0, 9, "10 - d 0"))
    assert verdict.seen.is_done([10])
    assert not verdict.seen.is_done([9])
    verdict.check([Commit(9, ())], set())
    assert verdict.violations.counts == {"early": 2}
    verdict.seen.output(Message(0, 0, "6 0 1 0 0 5 m 0 1"))
    verdict.judge()
    assert verdict.violations.counts["unexpected"] == 1


def test_the_order_of_repeats() -> None:
    """A jump is a repeat that leaves out what was between."""
    expected = array("Q", [1, 2, 3, 4])
    order = Order(expected, array("Q", [1, 2, 3, 1, 3, 4]))
    assert (order.passed, order.jumps, order.ends_with) == ([], 1, None)
    order = Order(expected, array("Q", [1, 3, 2]))
    assert (order.passed, order.ends_with) == ([(2, 3)], 2)


def chain_of(outputs: list[str], *, exactly_once: bool = False) -> Violations:
    """Return what is wrong with a chain of two levels; outputs are `number path`."""
    violations = Violations()
    ends = EndToEnd(Names(), violations, exactly_once=exactly_once)
    for offset, actions in enumerate(["12", "d1", "11"]):
        ends.first(Message(0, offset, f"{offset + 1} - {actions} 0"))
    for offset, text in enumerate(outputs):
        ends.last(Message(0, offset, f"{text} 11 0 0 {offset} m 0 1"))
    ends.written([3])
    ends.judge()
    return violations


@pytest.mark.parametrize(
    ("outputs", "violations"),
    [
        (["1 00", "1 01", "3 00"], {}),
        (["1 00", "3 00"], {"lost_end_to_end": 1, "order_end_to_end": 1}),
        (["1 00", "3 00", "1 01"], {"order_end_to_end": 1, "last_end_to_end": 1}),
        (["1 00", "1 01", "1 01", "3 00"], {}),
        (["1 00", "1 01", "3 00", "1 01"], {"last_end_to_end": 1}),
    ],
)
def test_what_is_wrong_from_end_to_end(outputs: list[str], violations: dict[str, int]) -> None:
    """The second record becomes a dead letter at the first level."""
    assert chain_of(outputs).counts == violations


def test_what_a_chain_repeats_exactly_once_is_wrong() -> None:
    """And what the load has not written."""
    violations = chain_of(["1 00", "1 01", "1 01", "3 00"], exactly_once=True)
    assert violations.counts == {"repeated_end_to_end": 1}
    ends = EndToEnd(Names(), violations, exactly_once=True)
    ends.first(Message(0, 0, "2 - 11 0"))
    ends.written([2])
    assert violations.counts["load"] == 2


def test_what_the_load_repeats_is_its_own() -> None:
    """Each level has handled both of them, once."""
    violations = Violations()
    ends = EndToEnd(Names(), violations, exactly_once=True)
    for offset, number in enumerate((1, 2, 1, 2, 3)):
        ends.first(Message(0, offset, f"{number} - 11 0"))
        ends.last(Message(0, offset, f"{number} 00 11 0 0 {offset} m 0 1"))
    ends.written([3])
    ends.judge()
    assert ends.written_again == {(0, 1), (0, 2)}
    assert (ends.repeated, violations.counts) == (0, {})


@pytest.mark.parametrize(
    ("messages", "differences"),
    [
        ([(0, "a"), (2, "b")], {}),
        ([(0, "a")], {"skipped": 1}),
        ([(0, "a"), (1, "x"), (2, "b")], {"aborted": 1}),
        ([(0, "a"), (2, "x")], {"changed": 1}),
        ([(0, "a"), (2, "b"), (0, "a")], {"repeated": 1}),
    ],
)
def test_what_a_reader_has_seen_otherwise(
    messages: list[tuple[int, str]], differences: dict[str, int]
) -> None:
    """The log has two records; between them is one that was aborted."""
    true, sums = Sums(), Sums()
    for offset, text in [(0, "a"), (2, "b")]:
        true.take(Message(0, offset, text))
    for offset, text in messages:
        sums.take(Message(0, offset, text))
    assert sums.differences(true) == differences


def test_a_partition_of_which_all_was_aborted_is_compared() -> None:
    """The reader that has read all in the end has nothing of it."""
    sums = Sums()
    sums.take(Message(0, 0, "a"))
    assert sums.differences(Sums()) == {"aborted": 1}
