"""Hostile headers, random and contrived. `scripts/fuzz_headers` judges a million and more."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ehkafka.headers import amqp
from tests.kit.header_fuzz import INPUTS_PER_SEED, Failure, fuzz, judge

SEEDS = int(os.environ.get("EHKAFKA_FUZZ_SEEDS", "2"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_seed_breaks_the_decoder(seed: int) -> None:
    """Nothing raises, nothing grows beyond its bounds; many inputs are values, and more are not."""
    assert INPUTS_PER_SEED // 20 < fuzz(seed) < INPUTS_PER_SEED // 2


@given(st.binary(max_size=64))
@example(b"")
@example(b"\x00" * 60)
@example(b"\xf0\xff\xff\xff\xff\xff\xff\xff\xff\x40")
def test_random_bytes_never_raise(buffer: bytes) -> None:
    """A value, or the very bytes."""
    judge(buffer)


def test_a_seed_replays_exactly() -> None:
    """What a failing run prints can be had again."""
    assert fuzz(5, 500) == fuzz(5, 500)


def _text_of_any_length(walk: amqp._Walk, at: int) -> tuple[str, int]:
    return walk.buffer[at + 1 :].decode(), len(walk.buffer)


@pytest.mark.parametrize(
    ("guard", "value"),
    [("DEPTH_MAX", 60), ("ITEMS_MAX", 5_000), ("_READ", {**amqp._READ, 0xA1: _text_of_any_length})],
)
def test_the_fuzzer_notices_a_guard_that_is_gone(
    guard: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the bound on depth or numbers, or a look at a length, a few thousand inputs tell."""
    monkeypatch.setattr(amqp, guard, value)
    with pytest.raises(Failure):
        fuzz(1, 3_000)
