"""Whether one level keeps its promises: `check` looks at commits while it runs, `judge` at all in the end."""

from __future__ import annotations

import time
from array import array
from itertools import zip_longest
from typing import TYPE_CHECKING

from tests.proof.seen import HOLE, PLACE_BITS, code_of
from tests.proof.work import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.proof.reader import Commit
    from tests.proof.seen import Seen
    from tests.proof.violations import Violations


class Verdict:
    """Judges what was seen of one level."""

    def __init__(self, seen: Seen, violations: Violations, *, exactly_once: bool) -> None:
        self.seen, self.violations, self.exactly_once = seen, violations, exactly_once
        self.checks = self.ranges_seen = self.repeated = self.jumps = self.doubted = 0
        # How many dead letters of a key had one before them, so that there was an order to be kept.
        self.letters_in_order = 0
        partitions = len(seen.logs)
        self._checked = [0] * partitions
        self._highest = [0] * partitions
        # What a node may have said that did not know yet that it leads no longer, and when: looked at again.
        self._doubtful: dict[tuple[str, int, int], int] = {}

    def check(
        self,
        commits: list[Commit],
        sent: set[tuple[int, int]],
        *,
        is_calm: bool = True,
        read_ns: int | None = None,
    ) -> None:
        """Compare commits with all that was read after them, and exactly once with what was sent before.

        Where it is not calm, a node may answer that was cut off or frozen and leads no longer, though it does
        not know: what looks wrong then is wrong if it still is once it is calm. What is sent behind
        `read_ns`, when the commits had been read, was not there: calm or not.
        """
        self.checks += 1
        read_ns = time.monotonic_ns() if read_ns is None else read_ns
        self._judge_texts(commits)
        self._judge_late(commits, read_ns)
        found = {("uncovered", *record) for record in sent if self.exactly_once}
        found |= {*self._called_finished(commits), *self._doubtful}
        found |= {("back", partition, highest) for partition, highest in enumerate(self._highest)}
        wrong = {one for one in found if self._wrong(commits, *one)}
        if is_calm:
            for one in sorted(wrong):
                self._violate(*one, self._wrong(commits, *one))
            wrong = set()
        self.doubted += len(wrong - self._doubtful.keys())
        self._doubtful = {one: self._doubtful.get(one, read_ns) for one in wrong}
        for partition, commit in enumerate(commits):
            self._highest[partition] = max(self._highest[partition], commit.next_offset)

    def _judge_texts(self, commits: list[Commit]) -> None:
        for partition, commit in enumerate(commits):
            if commit.problem:
                self._violate("text", partition, commit.next_offset, f"is the commit: {commit.problem}")

    def _judge_late(self, commits: list[Commit], read_ns: int) -> None:
        """Look at the first outputs that were read last: whether a commit was before the end of their call.

        All members have one clock, which only goes forward.
        """
        for (partition, offset), end_ns in self.seen.fresh.items():
            called_ns = self._doubtful.get(("early", partition, offset))
            if called_ns is None and commits[partition].covers(offset):
                called_ns = read_ns
            # What goes with a refused output may be seen or not: nothing says when it is due.
            if called_ns is None or end_ns <= called_ns or not self.seen.must_have(partition, offset):
                continue
            after_ms = (end_ns - called_ns) / 1e6
            text = f"was handled until {after_ms:.1f} ms after a commit was read that calls it finished"
            self._violate("early", partition, offset, text)

    def _called_finished(self, commits: list[Commit]) -> Iterator[tuple[str, int, int]]:
        for partition, commit in enumerate(commits):
            self.ranges_seen += len(commit.finished)
            for offset in commit.offsets_from(self._checked[partition]):
                yield "early", partition, offset
            self._checked[partition] = max(self._checked[partition], commit.next_offset)

    def _wrong(self, commits: list[Commit], kind: str, partition: int, offset: int) -> str:
        """Return what is wrong with a record, if anything is."""
        commit = commits[partition]
        if kind == "back":
            return f"was the commit, and it is {commit}" if commit.next_offset < offset else ""
        if kind == "uncovered":
            return "" if commit.covers(offset) else f"was sent, and the commit is {commit}"
        lacks = self.seen.lacks(partition, offset)
        return f"{lacks}, and the commit is {commit}" if lacks else ""

    def _violate(self, kind: str, partition: int, offset: int, text: str) -> None:
        self.violations.by_record(kind, self.seen.level, partition, offset, text)

    def judge(self) -> None:
        """Look at each input, each output and each key."""
        # What is doubtful still was never seen to be right.
        for kind, partition, offset in sorted(self._doubtful):
            self._violate(kind, partition, offset, "looked wrong, and it was never calm again")
        for partition, log in enumerate(self.seen.logs):
            for offset, code in enumerate(log.actions):
                self._judge_record(partition, offset, code)
        for partition, offset, place in self.seen.stray:
            self._violate("unexpected", partition, offset, f"has output {place}")
        for partition, offset in self.seen.two_partitions:
            self._violate("two_partitions", partition, offset, "has an output where its key has no others")
        for one, other in self.seen.overlaps:
            text = f"and {other.offset} of its key were handled at once by {one.member.decode()}"
            self._violate("overlap", one.partition, one.offset, text)
        self._judge_keys()
        self._judge_letters()

    def _judge_record(self, partition: int, offset: int, code: int) -> None:
        log = self.seen.logs[partition]
        counts = log.first[offset], log.second[offset], log.letters[offset]
        if code == HOLE:
            if any(counts):
                self._violate("unexpected", partition, offset, f"is no record, and has {counts} outputs")
            return
        action = ACTIONS[chr(code)]
        if lacks := self.seen.lacks(partition, offset):
            self._violate("lost", partition, offset, lacks)
        allowed = [place in action.places for place in (0, 1)] + [bool(action.letters)]
        # What a record has sent with a refused output may be seen.
        allowed[0] |= action.name == "both"
        for what, count, is_allowed in zip(
            ("output 0", "output 1", "a letter"), counts, allowed, strict=True
        ):
            if count and not is_allowed:
                self._violate("unexpected", partition, offset, f"({action.name}) has {what}")
            elif count > 1:
                self.repeated += count - 1
                if self.exactly_once:
                    self._violate("repeated", partition, offset, f"has {what} {count} times")

    def _judge_keys(self) -> None:
        expected = [array("Q") for _ in range(len(self.seen.keys))]
        for partition, log in enumerate(self.seen.logs):
            for offset in log.offsets():
                for place in ACTIONS[chr(log.actions[offset])].places:
                    expected[log.keys[offset]].append(code_of(partition, offset, place))
        for wanted, outputs in zip_longest(expected, self.seen.of_key, fillvalue=array("Q")):
            order = Order(wanted, outputs)
            self.jumps += order.jumps
            for code, by in order.passed:
                text = f"was passed by {self._words(by)} of its key"
                self._violate("order", *self._record(code), text)
            if order.ends_with is not None:
                text = "is repeated behind its key's last output"
                self._violate("last", *self._record(order.ends_with), text)

    def _judge_letters(self) -> None:
        """Look at each key's dead letters of calls that have failed for good: it waits for each of them.

        It does not wait for those of refused outputs: records behind them may have run.
        """
        expected = [array("Q") for _ in range(len(self.seen.keys))]
        for partition, log in enumerate(self.seen.logs):
            for offset in log.offsets():
                if ACTIONS[chr(log.actions[offset])].name == "doomed":
                    expected[log.keys[offset]].append(code_of(partition, offset))
        for wanted, letters in zip_longest(expected, self.seen.letters_of_key, fillvalue=array("Q")):
            self.letters_in_order += max(0, len(wanted) - 1)
            for code, by in Order(wanted, letters).passed:
                place, behind = self._record(by)
                text = f"was passed by the dead letter of {place}@{behind} of its key"
                self._violate("letters_order", *self._record(code), text)

    @staticmethod
    def _record(code: int) -> tuple[int, int]:
        return code >> 48, (code & (1 << 48) - 1) >> PLACE_BITS

    def _words(self, code: int) -> str:
        partition, offset = self._record(code)
        return f"output {code & (1 << PLACE_BITS) - 1} of {partition}@{offset}"


class Order:
    """How one key's outputs stand to the order that they must have.

    The first of each output comes in its inputs' order (`passed` has others, with what has passed them), and
    the last output of all is the last one, else `ends_with` is the one that ends it. A `jump` is a repeat
    that leaves out what was between.
    """

    def __init__(self, expected: array[int], outputs: array[int]) -> None:
        self.passed: list[tuple[int, int]] = []
        self.jumps = 0
        order = {code: at for at, code in enumerate(expected)}
        highest = before = -1
        for code in outputs:
            at = order.get(code)
            if at is None:
                continue
            if at > highest + 1:
                self.passed.append((expected[highest + 1], code))
            elif at > before + 1:
                self.jumps += 1
            highest, before = max(highest, at), at
        self.ends_with = expected[before] if before != highest else None
