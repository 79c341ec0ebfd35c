"""Judges a run at random by what its handlers wrote down and what the broker had committed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.kit.random_plan import Place, Plan

if TYPE_CHECKING:
    from tests.kit.random_handlers import Line

# Hooks run on threads of their own: the end of an assignment may be written down so much late.
HOOK_NS = 1_500_000_000


@dataclass
class Seen:
    """What a run has left."""

    lines: list[Line] = field(default_factory=list)
    # When a commit was read: partition and next_offset.
    commits: list[tuple[int, Any, int]] = field(default_factory=list)
    # Of each partition, when assignments have ended.
    ends: dict[Any, list[int]] = field(default_factory=lambda: defaultdict(list))
    # When which member had stopped in good order.
    stops: list[tuple[int, int]] = field(default_factory=list)
    skipped: set[Place] = field(default_factory=set)
    letters: set[Place] = field(default_factory=set)


class Judge:
    """Judges one run; `faults` says in words what is wrong."""

    def __init__(self, plan: Plan, seen: Seen) -> None:
        self.plan, self.seen = plan, seen
        self.faults: list[str] = []
        # What got its result without the handler.
        self.given_up = seen.skipped | seen.letters
        # When a record was done first, and by which member; when a call of it failed last, and how often.
        self.done: dict[Place, tuple[int, int]] = {}
        self.failed_ns: dict[Place, int] = {}
        self.failures: Counter[Place] = Counter()
        # The records of each key in each partition, in order.
        self.order: dict[Any, list[Place]] = defaultdict(list)
        for place in sorted(plan.names):
            self.order[plan.names[place], place[:2]].append(place)
        self._judge_calls()
        self._judge_results()
        self._judge_commits()

    def _fault(self, text: str, line: Line) -> None:
        self.faults.append(f"{line} {self.plan.words[line.place]!r} {text}")

    def _judge_calls(self) -> None:
        running: dict[Any, dict[Place, int]] = defaultdict(dict)
        # Of each key in a partition, for each member: which of its records is next, when that was seen, and
        # in which assignment, as far as that shows.
        following: dict[Any, tuple[int, int, int]] = {}
        began: dict[Any, int] = {}
        for line in self.seen.lines:
            place, name = line.place, self.plan.names[line.place]
            owner, key = (line.member, name), (line.member, name, place[:2])
            places = self.order[name, place[:2]]
            number = bisect_left(places, place)
            if line.word == "void":
                self.done.pop(place, None)
            elif line.word == "begin":
                if any(call != line.call for call in running[owner].values()):
                    self._fault(f"overlaps with {running[owner]}", line)
                running[owner][place] = line.call
                self._judge_repeat(line)
                following[key] = self._follow(line, places, number, following.get(key))
                began[line.member, line.call, place] = following[key][2]
            else:
                running[owner].pop(place, None)
                self._end(line)
                then, since_ns, assignment = following[key]
                is_current = began[line.member, line.call, place] == assignment
                if is_current and line.word in ("failed", "again"):
                    following[key] = min(then, number), since_ns, assignment

    def _follow(self, line: Line, places: list[Place], number: int, known: Any) -> tuple[int, int, int]:
        then, since_ns, assignment = known or (0, 0, 0)
        is_next = number >= then and all(place in self.given_up for place in places[then:number])
        if known and is_next:
            return number + 1, line.at_ns, assignment
        if known and not self._has_ended(line.place, since_ns, line.at_ns):
            self._fault(f"comes where number {then} of its key is next, not {number}", line)
        before = [place for place in places[:number] if place not in self.done and place not in self.given_up]
        if before:
            self._fault(f"overtakes {before[:3]}", line)
        return number + 1, line.at_ns, assignment + 1

    def _end(self, line: Line) -> None:
        if line.word == "done":
            self.done.setdefault(line.place, (line.at_ns, line.member))
        else:
            self.failed_ns[line.place] = line.at_ns
            self.failures[line.place] += line.word == "failed"

    def _has_ended(self, place: Place, after_ns: int, before_ns: int) -> bool:
        return any(after_ns - HOOK_NS < at_ns < before_ns + HOOK_NS for at_ns in self.seen.ends[place[:2]])

    def _judge_repeat(self, line: Line) -> None:
        done_ns, member = self.done.get(line.place, (None, None))
        if done_ns is None:
            return
        # A member that was thrown out of the group may not know it yet.
        is_elsewhere = "join" in self.plan.acts and line.member != member
        if not is_elsewhere and not self._has_ended(line.place, done_ns, line.at_ns):
            self._fault("is repeated within an assignment", line)
        if any(done_ns < at_ns < line.at_ns and by == member for at_ns, by in self.seen.stops):
            self._fault("is repeated after a stop in good order", line)
        commits = self.seen.commits
        if any(
            where == line.place[:2] and at_ns < done_ns and offset > line.place.offset
            for at_ns, where, offset in commits
        ):
            self._fault("is repeated below a commit", line)

    def _judge_results(self) -> None:
        diverting = {self.plan.names[place] for place in self.seen.letters if self.failures[place]}
        if getattr(self.plan.options["on_failure"], "after", "") != "divert_key":
            diverting = set()
        for place, name in self.plan.names.items():
            if place in self.done:
                continue
            may_be = self.plan.words[place] in (b"skip", b"reject") or name in diverting
            if place not in self.given_up:
                self.faults.append(f"{place} has no result")
            elif not may_be and self.failures[place] < self.plan.options["retry"].attempts:
                self.faults.append(f"{place} was given up after {self.failures[place]} failures")

    def _judge_commits(self) -> None:
        highest: Counter[Any] = Counter()
        for at_ns, where, next_offset in self.seen.commits:
            if next_offset < highest[where]:
                self.faults.append(f"the commit of {where} went back to {next_offset}")
            for offset in range(highest[where], next_offset):
                place = Place(where[0], where[1], offset)
                result_ns = self.done.get(place, (None,))[0]
                if result_ns is None and place in self.given_up:
                    result_ns = self.failed_ns.get(place, 0)
                if result_ns is None or result_ns > at_ns:
                    self.faults.append(f"the commit {next_offset} passes {place}, which had no result")
            highest[where] = max(next_offset, highest[where])
