"""Whether one level keeps its promises: `check` looks at commits while it runs, `judge` at all in the end."""

from __future__ import annotations

from array import array
from itertools import zip_longest
from typing import TYPE_CHECKING

from tests.proof.seen import HOLE, PLACE_BITS
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
        partitions = len(seen.logs)
        self._checked = [0] * partitions
        self._highest = [0] * partitions
        # What a node may have said that did not know yet that it leads no longer: looked at again later.
        self._doubtful: set[tuple[str, int, int]] = set()

    def check(self, commits: list[Commit], sent: set[tuple[int, int]], *, is_calm: bool = True) -> None:
        """Compare commits with all that was read after them, and exactly once with what was sent before.

        Where it is not calm, a node may answer that was cut off or frozen and leads no longer, though it does
        not know: what looks wrong then is wrong if it still is once it is calm.
        """
        self.checks += 1
        found = {("uncovered", *record) for record in sent if self.exactly_once}
        found |= set(self._called_finished(commits)) | self._doubtful
        found |= {("back", partition, highest) for partition, highest in enumerate(self._highest)}
        wrong = {one for one in found if self._wrong(commits, *one)}
        if is_calm:
            for one in sorted(wrong):
                self._violate(*one, self._wrong(commits, *one))
            wrong = set()
        self.doubted += len(wrong - self._doubtful)
        self._doubtful = wrong
        for partition, commit in enumerate(commits):
            self._highest[partition] = max(self._highest[partition], commit.next_offset)

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
                    expected[log.keys[offset]].append(partition << 48 | offset << PLACE_BITS | place)
        for wanted, outputs in zip_longest(expected, self.seen.of_key, fillvalue=array("Q")):
            order = Order(wanted, outputs)
            self.jumps += order.jumps
            for code, by in order.passed:
                text = f"was passed by {self._words(by)} of its key"
                self._violate("order", *self._record(code), text)
            if order.ends_with is not None:
                text = "is repeated behind its key's last output"
                self._violate("last", *self._record(order.ends_with), text)

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
