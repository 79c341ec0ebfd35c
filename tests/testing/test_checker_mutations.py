"""Histories of a correct engine have no violation; one mutation of them is always found."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.kit.checker import history_event as events
from tests.kit.checker.checker import check_history
from tests.kit.story import PARTITION, Story

RECORDS = 24
SEEDS = st.integers(0, 2**32 - 1)


class _Engine:
    """A tiny correct engine: a lane per key, random workers, watermark commits, kills and hand-overs."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.keys = [random.choice("abcd") for _ in range(RECORDS)]
        self.story = Story().produced(*range(RECORDS))
        self.pid = self.epoch = self.committed = 0
        self._begin(pid=1)

    def _begin(self, pid: int) -> None:
        self.epoch = self.epoch + 1 if pid == self.pid else 1
        self.pid = pid
        self.received = self.committed
        # Offset → attempts made; a record is in `running` during an attempt.
        self.unfinished: dict[int, int] = {}
        self.running: set[int] = set()
        self.story.assigned(self.epoch, pid=pid, at=str(self.committed))

    def run(self, *, disturbed: bool) -> Story:
        """Work until all is finished and committed; `disturbed`: with kills, hand-overs and failures."""
        while self.committed < RECORDS:
            action = self.random.choice((self._receive, self._start, self._end, self._end, self._commit))
            action(disturbed)
            if disturbed and self.random.random() < 0.03:
                self.random.choice((self._kill, self._hand_over))()
        return self.story

    def _place(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "pid": self.pid}

    def _receive(self, _disturbed: bool) -> None:
        end = min(RECORDS, self.received + self.random.randint(1, 6))
        if end > self.received:
            self.story.received(*range(self.received, end), **self._place())
            self.unfinished |= dict.fromkeys(range(self.received, end), 0)
            self.received = end

    def _start(self, _disturbed: bool) -> None:
        heads: dict[str, int] = {}
        for offset in self.unfinished:
            heads.setdefault(self.keys[offset], offset)
        ready = [offset for offset in heads.values() if offset not in self.running]
        if ready:
            offset = self.random.choice(ready)
            self.unfinished[offset] += 1
            self.running.add(offset)
            self.story.start(offset, self.keys[offset], attempt=self.unfinished[offset], **self._place())

    def _end(self, disturbed: bool) -> None:
        if self.running:
            offset = self.random.choice(sorted(self.running))
            failed = disturbed and self.random.random() < 0.2
            outcome = "failed" if failed else self.random.choice(("finished", "skipped", "dead-lettered"))
            attempt = self.unfinished[offset]
            self.story.finish(offset, self.keys[offset], outcome, attempt=attempt, **self._place())
            self.running.remove(offset)
            if not failed:
                del self.unfinished[offset]

    def _commit(self, _disturbed: bool) -> None:
        watermark = min(self.unfinished, default=self.received)
        if watermark > self.committed:
            self.committed = watermark
            self.story.commit(watermark, pid=self.pid)

    def _kill(self) -> None:
        self.story.killed(self.pid)
        self._begin(self.pid + 1)

    def _hand_over(self) -> None:
        self._commit(True)
        self.story.revoked(self.epoch, pid=self.pid)
        for offset in sorted(self.running):  # handlers outlive their epoch
            attempt = self.unfinished[offset]
            self.story.finish(offset, self.keys[offset], attempt=attempt, **self._place())
        self._begin(self.random.choice((self.pid, self.pid + 1)))


def calm_history(seed: int) -> tuple[Random, list[Any]]:
    """Return a valid history of one process, and the randomness to mutate it with."""
    random = Random(seed)
    return random, _Engine(random).run(disturbed=False).events


def positions(history: list[Any], kind: type) -> list[int]:
    """Return where the events of a kind stand."""
    return [i for i, event in enumerate(history) if isinstance(event, kind)]


def neighbours(history: list[Any], random: Random) -> tuple[int, int]:
    """Return where two successive records of one key start."""
    starts = positions(history, events.Started)
    pairs = [
        (i, next(j for j in starts if j > i and history[j].key == history[i].key))
        for i in starts
        if any(j > i and history[j].key == history[i].key for j in starts)
    ]
    assume(pairs)
    return random.choice(pairs)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_correct_engine_has_no_violation(seed: int) -> None:
    """Through kills, hand-overs, retries and late ends: all measures 0, duplicates within their bound."""
    engine = _Engine(Random(seed))
    verdict = check_history(engine.run(disturbed=True).events)
    assert verdict.ok, verdict.report()
    assert verdict.finished == RECORDS
    assert verdict.duplicates <= verdict.duplicates_bound


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_graceful_run_has_no_duplicate_and_no_allowance_for_one(seed: int) -> None:
    """Without a kill the bound itself is 0."""
    _, history = calm_history(seed)
    verdict = check_history(history)
    assert verdict.ok, verdict.report()
    assert (verdict.duplicates, verdict.duplicates_bound) == (0, 0)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_two_swapped_records_of_a_key_are_found(seed: int) -> None:
    """The later record takes the place of the earlier one, and the other way round."""
    random, history = calm_history(seed)
    first, second = (history[i].offset for i in neighbours(history, random))
    swapped = {first: second, second: first}
    mutant = [
        replace(event, offset=swapped.get(event.offset, event.offset))
        if isinstance(event, (events.Started, events.Finished))
        else event
        for event in history
    ]
    # Only where both were received in time is it a swap and nothing else.
    assume(not check_history(mutant).protocol_breaches)
    assert check_history(mutant).order_violations > 0


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_overlap_of_two_records_of_a_key_is_found(seed: int) -> None:
    """The end of the earlier record moves behind the start of the later one."""
    random, history = calm_history(seed)
    first, second = neighbours(history, random)
    end = next(i for i in positions(history, events.Finished) if history[i].offset == history[first].offset)
    mutant = [*history[:end], *history[end + 1 : second + 1], history[end], *history[second + 1 :]]
    assert check_history(mutant).order_violations == 1


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_commit_of_one_too_far_is_found(seed: int) -> None:
    """The next offset is unfinished or was never received: both are premature."""
    random, history = calm_history(seed)
    request = random.choice(positions(history, events.CommitRequested))
    next_offset = history[request].next_offsets[PARTITION] + 1
    mutant = list(history)
    for i in (request, request + 1):
        mutant[i] = replace(history[i], next_offsets={PARTITION: next_offset})
    assert check_history(mutant).violations["premature_commits"] == 1


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_dropped_outcome_is_found(seed: int) -> None:
    """The record was committed past, is lost, and was never seen to finish."""
    random, history = calm_history(seed)
    dropped = random.choice(positions(history, events.Finished))
    verdict = check_history(history[:dropped] + history[dropped + 1 :])
    assert verdict.lost == 1
    assert verdict.unseen == 1
    assert verdict.premature_commits >= 1


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_second_outcome_is_found(seed: int) -> None:
    """At any later point of the epoch, a repeated end has no excuse."""
    random, history = calm_history(seed)
    end = random.choice(positions(history, events.Finished))
    again = random.randint(end + 1, len(history))
    verdict = check_history([*history[:again], history[end], *history[again:]])
    assert verdict.duplicates == verdict.duplicates_unexplained == 1
    assert not verdict.ok
