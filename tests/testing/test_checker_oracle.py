"""The streaming checker agrees with a naive one that looks at the whole history for every question."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.checker import history_event as events
from tests.kit.checker.checker import check_history
from tests.kit.story import Story

KEYS = ("a", "b", None)


@dataclass
class _Process:
    """What a made-up process may do next; it breaks promises but never the protocol."""

    pid: int
    epoch: int = 0
    open: bool = False
    next_offset: int = 0
    # (epoch, offset) → attempt; positive while it runs, as in the checker.
    records: dict[tuple[int, int], int] = field(default_factory=dict)
    requests: list[int] = field(default_factory=list)


def report(steps: list[tuple[int, int, int, int]]) -> Story:
    """Interpret random numbers as a history of two process slots and one partition."""
    story, slots = Story(), [_Process(1), _Process(2)]
    for who, what, a, b in steps:
        process = slots[who]
        if what == 8 and a == 0:
            story.killed(process.pid)
            slots[who] = _Process(process.pid + 2)
        elif process.epoch == 0 or what == 0:
            _reassign(story, process, a, b)
        elif what == 7:
            _commit(story, process, a, b)
        else:
            _work(story, process, what, a, b)
    return story.produced(*range(4))


def _reassign(story: Story, process: _Process, a: int, b: int) -> None:
    if process.open:
        story.revoked(process.epoch, pid=process.pid)
        process.open = False
        if b == 0:
            return  # stays without the partition for a while
    process.epoch += 1
    process.open = True
    process.next_offset = a
    story.assigned(process.epoch, pid=process.pid, at=str(a) if b % 2 else "earliest")


def _work(story: Story, process: _Process, what: int, a: int, b: int) -> None:
    pid, epoch = process.pid, process.epoch
    if what in {1, 2} and process.open:
        offsets = range(process.next_offset, process.next_offset + 1 + a % 3)
        story.received(*offsets, epoch=epoch, pid=pid)
        process.next_offset = offsets.stop
        process.records |= dict.fromkeys(((epoch, offset) for offset in offsets), 0)
    idle = [place for place, state in process.records.items() if place[0] == epoch and (state <= 0 or b == 0)]
    running = [place for place, state in process.records.items() if state > 0]
    if what in {3, 4} and idle:
        place = idle[a % len(idle)]
        process.records[place] = attempt = abs(process.records[place]) + 1
        story.start(place[1], KEYS[place[1] % 3], attempt=attempt, epoch=place[0], pid=pid)
    elif what in {5, 6} and running:
        place = running[a % len(running)]
        attempt, outcome = process.records[place], ("failed", "finished", "skipped", "finished")[b % 4]
        story.finish(place[1], KEYS[place[1] % 3], outcome, attempt=attempt, epoch=place[0], pid=pid)
        if outcome == "failed":
            process.records[place] = -attempt
        else:
            del process.records[place]


def _commit(story: Story, process: _Process, a: int, b: int) -> None:
    if b == 0 or not process.requests:
        story.request(a, pid=process.pid)
        process.requests.append(a)
    elif b == 1:
        story.add(
            events.CommitFailed, {_partition(story): process.requests.pop()}, "refused", pid=process.pid
        )
    elif b == 2:
        story.acknowledge(process.requests.pop(a % len(process.requests)), pid=process.pid)
    else:
        story.acknowledge(a, pid=process.pid)
        if a in process.requests:
            process.requests.remove(a)


def _partition(story: Story) -> Any:
    return next(event.partition for event in story.events if isinstance(event, events.Assigned))


class _Oracle:
    """Answers each question by searching the history from its beginning."""

    def __init__(self, history: list[events.HistoryEvent]) -> None:
        self.history = history

    def counts(self) -> dict[str, int]:
        done = self.outcomes()
        commits = self.commits()
        final = self.final(commits)
        produced = {o for e in self.history if isinstance(e, events.Produced) for o in e.offsets}
        received = {o for e in self.history if isinstance(e, events.Received) for o in e.offsets}
        starts = [i for i, e in enumerate(self.history) if isinstance(e, events.Started)]
        return {
            "lost": sum(o < final and o not in done for o in produced | received),
            "unseen": sum(o not in done for o in produced),
            "duplicates": len(done) - len(set(done)),
            "order_violations": sum(self.violates_order(i) for i in starts),
            "cross_epoch_overlaps": sum(self.overlaps_epoch(i) for i in starts),
            "premature_commits": sum(self.is_premature(request, ack) for request, ack in commits),
            "stale_commits": sum(self.is_stale(request, ack) for request, ack in commits),
        }

    def outcomes(self) -> list[int]:
        ends = [e for e in self.history if isinstance(e, events.Finished)]
        return [e.offset for e in ends if e.outcome != "failed"]

    def state(self, run: str, epoch: int, offset: int, before: int) -> str:
        """Return `idle`, `running`, `failed` or `settled`: what the record's last event left."""
        state = "idle"
        for e in self.history[:before]:
            if isinstance(e, events.Started) and (e.run, e.epoch, e.offset) == (run, epoch, offset):
                state = "running"
            if isinstance(e, events.Finished) and (e.run, e.epoch, e.offset) == (run, epoch, offset):
                state = "failed" if e.outcome == "failed" else "settled"
        return state

    def violates_order(self, i: int) -> bool:
        s: Any = self.history[i]
        if self.state(s.run, s.epoch, s.offset, i) == "running":
            return True  # an overlap with itself, which needs no key
        before = [e for e in self.history[:i] if isinstance(e, events.Started)]
        others = {e.offset for e in before if (e.run, e.epoch, e.key) == (s.run, s.epoch, s.key)} - {s.offset}
        if s.key is None:
            return False
        held = any(self.state(s.run, s.epoch, o, i) in {"running", "failed"} for o in others)
        return held or any(o > s.offset for o in others)

    def overlaps_epoch(self, i: int) -> bool:
        s: Any = self.history[i]
        killed = {e.killed_pid for e in self.history[:i] if isinstance(e, events.ProcessKilled)}
        return s.key is not None and any(
            e.key == s.key
            and (e.run, e.epoch) != (s.run, s.epoch)
            and e.pid not in killed
            and self.state(e.run, e.epoch, e.offset, i) == "running"
            for e in self.history[:i]
            if isinstance(e, events.Started)
        )

    def commits(self) -> list[tuple[int, int | None]]:
        """Pair requests with acknowledgements; an answer takes the oldest request of its value."""
        pairs: list[tuple[int, int | None]] = []
        for i, e in enumerate(self.history):
            if isinstance(e, events.CommitRequested):
                pairs.append((i, None))
            elif isinstance(e, (events.CommitAcknowledged, events.CommitFailed)):
                [value] = e.next_offsets.values()
                ack = i if isinstance(e, events.CommitAcknowledged) else -1
                same = [p for p in pairs if p[1] is None and self.who(p[0]) == (e.run, value)]
                if same:
                    pairs[pairs.index(same[0])] = (same[0][0], ack)
                elif ack == i:
                    pairs.append((i, i))
        return pairs

    def who(self, i: int) -> tuple[str, int]:
        e: Any = self.history[i]
        [value] = e.next_offsets.values()
        return e.run, value

    def epoch_of(self, request: int) -> tuple[int, Any]:
        run, _ = self.who(request)
        own = [
            (i, e)
            for i, e in enumerate(self.history[:request])
            if isinstance(e, events.Assigned) and e.run == run
        ]
        return own[-1]

    def is_premature(self, request: int, ack: int | None) -> bool:
        run, value = self.who(request)
        _, epoch = self.epoch_of(request)
        return any(
            self.passes(run, epoch, value, instant) for instant in (request, ack) if instant not in {None, -1}
        )

    def passes(self, run: str, epoch: Any, value: int, instant: Any) -> bool:
        received = [
            o
            for e in self.history[:instant]
            if isinstance(e, events.Received) and (e.run, e.epoch) == (run, epoch.epoch)
            for o in e.offsets
        ]
        if any(o < value and self.state(run, epoch.epoch, o, instant) != "settled" for o in received):
            return True
        if received:
            return value > max(received) + 1
        return epoch.position.isdecimal() and value > int(epoch.position)

    def is_stale(self, request: int, ack: int | None) -> bool:
        if ack is None or ack == -1:
            return False
        run, value = self.who(request)
        since, _ = self.epoch_of(request)
        later = [
            (i, e)
            for i, e in enumerate(self.history[:ack])
            if isinstance(e, events.Assigned) and e.run != run and i > since
        ]
        if not later:
            return False
        first, owner = later[0]
        in_time = request < first and owner.position.isdecimal() and value <= int(owner.position)
        return not in_time

    def final(self, commits: list[tuple[int, int | None]]) -> int:
        final, final_request = 0, -1
        answered = [(ack, request) for request, ack in commits if ack is not None and ack >= 0]
        for ack, request in sorted(answered):
            if request > final_request or self.is_stale(request, ack):
                final, final_request = self.who(request)[1], request
        return final


def agree(steps: list[tuple[int, int, int, int]]) -> set[str]:
    """Compare both on one history; return the measures that were violated in it."""
    story = report(steps)
    verdict = check_history(story.events)
    expected = _Oracle(story.events).counts()
    assert {measure: getattr(verdict, measure) for measure in expected} == expected, verdict.report()
    assert verdict.protocol_breaches == 0, verdict.report()
    return {measure for measure, count in expected.items() if count}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(0, 5), st.integers(0, 3)),
        min_size=20,
        max_size=60,
    )
)
def test_streaming_checker_agrees_with_the_naive_one(steps: list[tuple[int, int, int, int]]) -> None:
    """Random processes that break every promise: each measure has the same count, to the last one."""
    agree(steps)


def test_both_agree_on_long_histories_that_violate_every_measure() -> None:
    """The same with histories long enough to tangle, and proof that none of the counts was always 0."""
    violated: set[str] = set()
    for seed in range(200):
        random = Random(seed)
        kinds = random.choices(range(9), weights=[1, 2, 2, 3, 3, 3, 3, 3, 1], k=random.randint(20, 90))
        steps = [(random.randint(0, 1), kind, random.randint(0, 5), random.randint(0, 3)) for kind in kinds]
        violated |= agree(steps)
    assert violated == set(_Oracle([]).counts())
