"""Over a crash, too: what is handled again of a key is all from one of its records on, never one alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.epoch import ENDED_LATELY_MAX
from ehkafka.progress.metadata import CommitMetadata, LogFacts, decode, encode
from ehkafka.progress.saving import ProgressSaver
from tests.kit.inbox_bench import Call, InboxBench, at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS = 60


class Run:
    """One member up to its crash, and what the next one then finds in the group's commit."""

    def __init__(self, *, bytes_max: int = 4000, finished: Sequence[int] = ()) -> None:
        self.bench = InboxBench(consumers=450)
        self.epoch = self.bench.assign(finished_before=finished or None)
        self.epoch.received.next_offset = 0
        self.saver = ProgressSaver(bytes_max, clock=lambda: 0.0)
        self.saver.begin(self.epoch, None)
        self.keys: list[bytes] = []

    def receive(self, keys: str) -> None:
        """Receive one record for each letter."""
        first = len(self.keys)
        self.bench.receive(self.epoch, " ".join(f"{key}{first + n}" for n, key in enumerate(keys)))
        self.keys += [key.encode() for key in keys]

    def commit(self, *, looks: bool = True) -> set[int]:
        """Commit; return what is not handled again after a crash at this moment."""
        self.saver.begin_tick()
        sample = self.saver.sample(self.epoch, fully=looks)
        assert sample is not None
        position = self.saver.position(sample)
        self.saver.end_tick(looked=looks)
        decoded = decode(position.metadata or "", position.next_offset)
        above = decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()
        return {*range(position.next_offset), *(one for start, end in above for one in range(start, end))}

    def after_a_crash(self, saved: set[int]) -> dict[bytes, int]:
        """Let an upsert be repeated for all that was not saved; return what each key's value is then."""
        values = dict(zip(self.keys, range(len(self.keys)), strict=True))
        values.update((key, offset) for offset, key in enumerate(self.keys) if offset not in saved)
        return values

    def latest(self) -> dict[bytes, int]:
        """Return each key's last record."""
        return dict(zip(self.keys, range(len(self.keys)), strict=True))

    def gaps(self, saved: set[int]) -> list[tuple[bytes, int]]:
        """Return what is saved though an earlier record of its key is not."""
        repeated: set[bytes] = set()
        found = []
        for offset, key in enumerate(self.keys):
            if offset not in saved:
                repeated.add(key)
            elif key in repeated:
                found.append((key, offset))
        return found


def test_an_upsert_does_not_end_with_its_old_value_because_the_metadata_is_full() -> None:
    """The long range at the end is of the keys of the short ones before: to save it alone loses updates."""
    run = Run(bytes_max=40)
    chance = random.Random(1)
    stuck = {offset for offset in range(400) if chance.random() < 0.5} | {0}
    letters = "".join(chance.choice("abcdefgh") for _ in range(400))
    # What is stuck has keys of its own.
    run.receive("".join(chr(1000 + n) if n in stuck else letter for n, letter in enumerate(letters)))
    run.receive("abcdefgh" * 200)
    for _ in range(8 + len(stuck)):
        worker = run.bench.call()
        if worker.key.decode() in "abcdefgh":
            run.bench.finish(worker, 2_000)
    saved = run.commit()
    assert run.epoch.tally.unfinished_records == len(stuck)
    assert len(saved) < 2000 - len(stuck), "the test needs metadata that are full"
    assert run.after_a_crash(saved) == run.latest()
    assert run.gaps(saved) == []


def test_an_upsert_does_not_end_with_its_old_value_because_many_ended_between_two_looks() -> None:
    """The oldest of them were not noted, the newest were: between two looks neither counts."""
    run = Run()
    run.receive("z" + "a" * (ENDED_LATELY_MAX + 10))
    run.commit()
    _, worker = at_once(run.bench, 2)
    run.bench.finish(worker, ENDED_LATELY_MAX + 5)
    saved = run.commit(looks=False)
    assert run.after_a_crash(saved) == run.latest()
    assert run.commit() == {*range(1, ENDED_LATELY_MAX + 6)}


@pytest.mark.parametrize("seed", range(120))
def test_no_crash_at_any_moment_leaves_a_gap_within_a_key(seed: int) -> None:
    """Whatever has ended, whatever outputs wait, however much there is room for. Nothing is taken back."""
    chance = random.Random(seed)
    run = Run(bytes_max=chance.choice([30, 40, 4000]))
    bench = run.bench
    run.epoch.ended_lately = type(run.epoch.ended_lately)(maxlen=ENDED_LATELY_MAX)
    waiting: set[int] = set()
    run.saver.lowest = lambda: {run.epoch: min(waiting)} if waiting else {}
    busy: list[Call] = []
    before: set[int] = set()
    for _ in range(150):
        what = chance.random()
        if what < 0.25 and len(run.keys) < RECORDS:
            run.receive("".join(chance.choice("abcdefghi") for _ in range(chance.randrange(1, 8))))
        elif what < 0.45:
            busy += at_once(bench, 1)
        elif what < 0.75 and busy:
            _end_one(run, busy, chance, waiting)
        elif what < 0.85 and waiting:
            waiting.remove(chance.choice(sorted(waiting)))
        saved = run.commit(looks=chance.random() < 0.5)
        assert run.gaps(saved) == []
        assert before <= saved or run.saver.bytes_max < 4000, "what was saved is taken back"
        before = saved
        assert not saved & waiting
        assert not saved & {entry[0].offset() for entry in run.epoch.unfinished()}
    while busy or not bench.is_empty():
        waiting.clear()
        busy += at_once(bench, 1)
        _end_one(run, busy, chance, waiting)
        assert run.gaps(run.commit()) == []
    waiting.clear()
    assert run.commit() == {*range(len(run.keys))}


def _end_one(run: Run, busy: list[Call], chance: random.Random, waiting: set[int]) -> None:
    """Let a worker end its record, and perhaps begin with the next one."""
    worker = chance.choice(busy)
    if chance.random() < 0.5:
        waiting.add(worker.offset)
    if chance.random() < 0.3 or not worker.start():
        run.bench.finish(worker, 1)
        busy.remove(worker)
    run.bench.count()


@pytest.mark.parametrize("seed", range(40))
def test_what_does_not_fit_is_left_out_from_above(seed: int) -> None:
    """No short range is dropped in favour of longer ones above it: these may be of the same keys."""
    chance = random.Random(seed)
    finished = {offset for offset in range(1, 600) if chance.random() < chance.choice([0.2, 0.5, 0.9])}
    ranges: list[tuple[int, int]] = []
    for offset in sorted(finished):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = ranges[-1][0], offset + 1
        else:
            ranges.append((offset, offset + 1))
    text = encode(0, LogFacts(), tuple(ranges), None, chance.randrange(20, 60)).text
    decoded = decode(text or "", 0)
    kept = decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()
    said = {offset for start, end in kept for offset in range(start, end)}
    assert said == {offset for offset in finished if offset <= max(said, default=0)}
