"""Outputs at random: full clients, lost producers and refusals, and all that is written is judged."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.outputs.sender_bench import (
    REFUSED,
    REPORTS,
    Bench,
    answer_for,
    full_after,
    partition_of,
)


class Chance:
    """A broker behind both producers that answers, inside of `poll`, what a seed says."""

    def __init__(self, seed: int, reports: str) -> None:
        self.rng = random.Random(seed)
        self.bench = Bench(way="bundles", at_once=self.rng.random() < 0.5, reports=reports)
        # By key, in the order in which it was written; how many were sent, lost producers and refusals.
        self.written: dict[str, list[int]] = {}
        self.number = self.lost = self.refused = 0
        self.calm = False
        self.bench.main.serve = self.answer_some  # type: ignore[method-assign]
        self.bench.second.serve = self.answer_alone  # type: ignore[method-assign]

    def write(self, value: bytes) -> None:
        """Note what is in the output topic now."""
        self.written.setdefault(value.decode()[0], []).append(int(value[1:]))

    def answer_some(self, _timeout_s: float) -> None:
        """Answer some or all: a partition's in the order in which it was sent, those of several in any."""
        client = self.bench.main.client
        for _ in range(len(client.sent) if self.calm else self.rng.randrange(5)):
            if not client.sent or self.bench.main.is_lost:
                break
            partition = self.rng.choice(sorted({partition_of(key) for _, key, _ in client.sent}))
            values = [value for value, key, _ in client.sent if partition_of(key) == partition]
            if not self.calm and self.rng.random() < 0.03:
                self.refused += 1
                self.bench.main.is_lost = True
                for value in values[: self.rng.randrange(1, 4)]:
                    answer_for(self.bench, value.decode(), REFUSED)
            else:
                self.write(values[0])
                answer_for(self.bench, values[0].decode())
        if not self.calm and self.rng.random() < 0.05:
            self.lost += 1
            self.bench.main.is_lost = True

    def answer_alone(self, _timeout_s: float) -> None:
        """Take what was refused before."""
        client = self.bench.second.client
        if client.sent and (self.calm or self.rng.random() < 0.3):
            self.write(client.sent[0][0])
            client.answer()

    def turn(self) -> None:
        """Add some, and let the sender go round, perhaps with a client that is full."""
        for _ in range(0 if self.calm else self.rng.randrange(4)):
            self.bench.add(f"{self.rng.choice('abcdg')}{self.number}")
            self.number += 1
        client = self.bench.main.client
        if not self.calm and self.rng.random() < 0.1:
            full_after(self.bench, self.rng.randrange(3))
        self.bench.turn()
        for name in ("produce", "produce_batch"):
            client.__dict__.pop(name, None)


@pytest.mark.parametrize("reports", REPORTS)
@pytest.mark.parametrize("seed", range(100))
def test_at_random_no_output_is_lost_and_none_passes_another(
    seed: int, reports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full clients, lost producers, refused outputs: each key's are written in their order.

    Once, where each is reported; else what is not reported is written again, from some earlier one on.
    """
    if seed % 2:  # half of them forget which keys were answered for, all the time
        monkeypatch.setattr("ehkafka.outputs.first_answers.ANSWERED_MAX", 3)
    chance = Chance(seed, reports)
    for _ in range(200):
        chance.turn()
    chance.calm = True
    for _ in range(3 * chance.number):
        chance.turn()
    assert chance.lost
    assert chance.refused
    assert chance.bench.book.count() == chance.bench.book._bytes == 0
    assert chance.bench.waiting == set()
    assert not chance.bench.book._bundles
    assert not chance.bench.book.is_full
    everything = [one for numbers in chance.written.values() for one in numbers]
    assert sorted(set(everything)) == list(range(chance.number))
    if reports == "each":
        assert len(everything) == chance.number
    for numbers in chance.written.values():
        expected = sorted(set(numbers))
        for before, after in pairwise(numbers):
            # The next one, or one that was written already: nothing is left out by a repeat either.
            assert after <= before or after == expected[expected.index(before) + 1]
