"""The number of workers that is found out: near the best of all numbers, and calm once it is found.

The handlers are models: how many records a number of workers ends in a second, and how many cores that takes.
"""

from __future__ import annotations

import random
import statistics
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ehkafka.workers import auto_size
from ehkafka.workers.auto import Bounds
from ehkafka.workers.auto_size import STEP, UNUSED_S, AutoSize, LoadSample
from tests.kit.mutant import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.mutant import Mutant

    # Given a number of workers: records per second, and cores.
    Model = Callable[[int], tuple[float, float]]

CHECK_S = 0.25
NOISE = 0.03
THREADS = Bounds(1, 16, 256)


def sleeping(call_s: float, cpu_s: float = 20e-6) -> Model:
    """Calls that wait, of which each costs some CPU."""

    def model(workers: int) -> tuple[float, float]:
        per_s = min(workers / call_s, 1 / cpu_s)
        return per_s, 1.2 * per_s * cpu_s

    return model


def computing(call_s: float) -> Model:
    """Calls that compute: more workers fight for the interpreter's lock."""
    return lambda workers: (max(0.3, 1 - 0.0015 * workers) / call_s, 1.05)


def both(compute_s: float, wait_s: float) -> Model:
    """Calls that compute and wait."""

    def model(workers: int) -> tuple[float, float]:
        per_s = min(workers / (compute_s + wait_s), 1 / compute_s) * max(0.5, 1 - 0.001 * workers)
        return per_s, per_s * compute_s

    return model


def limited(call_s: float, at_once: int) -> Model:
    """Calls to a server that serves so many at once."""
    return lambda workers: (min(workers, at_once) / call_s, 0.1)


class Minute(NamedTuple):
    """What a number was, look by look, and whether it was kept."""

    at_s: float
    size: int
    is_trying: bool


def follow(
    model: Model,
    *,
    seconds: float = 180.0,
    bounds: Bounds = THREADS,
    seed: int = 0,
    offered_per_s: Callable[[float], float] = lambda _at_s: float("inf"),
) -> list[Minute]:
    """Let the number be found for a handler; there are so many records for it."""
    drawn = random.Random(seed)
    auto, at_s, finished, cpu_s = AutoSize(bounds), 0.0, 0.0, 0.0
    found = []
    while at_s < seconds:
        most_per_s, cores = model(auto.size)
        per_s = min(most_per_s * (1 + drawn.gauss(0, NOISE)), offered_per_s(at_s))
        is_short = per_s < offered_per_s(at_s)
        share = min(1.0, per_s / most_per_s)
        finished += per_s * CHECK_S
        cpu_s += cores * share * CHECK_S
        at_s += CHECK_S
        busy = auto.size if is_short else int(auto.size * share)
        auto.next_size(LoadSample(at_s, int(finished), cpu_s, busy, is_short))
        found.append(Minute(at_s, auto.size, auto.is_trying))
    return found


MODELS = {
    "1 ms of sleep": sleeping(1e-3),
    "10 ms of sleep": sleeping(10e-3),
    "50 ms of sleep": sleeping(50e-3),
    "160 µs of computing": computing(160e-6),
    "5 ms of computing": computing(5e-3),
    "half and half": both(1e-3, 1e-3),
    "much waiting": both(1e-3, 20e-3),
    "a server of 40": limited(20e-3, 40),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
def test_the_number_that_is_found_does_nearly_as_much_as_the_best(name: str, seed: int) -> None:
    """From half a minute on, tries included."""
    model = MODELS[name]
    best_per_s = max(model(workers)[0] for workers in range(THREADS.least, THREADS.most + 1))
    found = [model(one.size)[0] for one in follow(model, seed=seed) if one.at_s > 30.0]
    assert statistics.mean(found) >= 0.95 * best_per_s


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MODELS)
def test_at_a_steady_load_it_is_calm(name: str, seed: int) -> None:
    """After a minute it is tried rarely, and by no more than a fifth, or by one worker."""
    late = [one for one in follow(MODELS[name], seed=seed, seconds=600.0) if one.at_s > 120.0]
    kept = statistics.median(one.size for one in late if not one.is_trying)
    trying = sum(one.is_trying for one in late) / len(late)
    assert trying < 0.1
    for one in late:
        assert kept / STEP**2 - 1 <= one.size <= kept * STEP**2 + 1


def test_nothing_is_tried_where_no_record_waits() -> None:
    """However long that is: the number is enough."""
    found = follow(sleeping(10e-3), offered_per_s=lambda _at_s: 1_000.0, seconds=50.0)
    assert {one.size for one in found} == {THREADS.first}
    assert not any(one.is_trying for one in found)


def test_a_burst_gets_more_workers_within_seconds() -> None:
    """An hour of quiet is no reason to be slow."""
    found = follow(sleeping(50e-3), seconds=330.0, offered_per_s=lambda at_s: 100.0 if at_s < 300.0 else 1e6)
    assert all(one.size <= THREADS.first for one in found if one.at_s < 300.0)
    reached_s = next(one.at_s for one in found if one.size == THREADS.most)
    assert reached_s < 310.0


# Before and after 200 s, and how many workers there are at the end.
CHANGES: dict[str, tuple[Model, Model, range]] = {
    "slows down": (computing(1e-3), sleeping(20e-3), range(THREADS.most, THREADS.most + 1)),
    "computes": (sleeping(20e-3), computing(1e-3), range(THREADS.first + 1)),
}


@pytest.mark.parametrize("handlers", CHANGES)
def test_a_handler_that_changes_gets_another_number_soon(handlers: str) -> None:
    """Tries in vain, which come ever later, are forgotten with their load; the CPU tells what computes."""
    before, after, right = CHANGES[handlers]
    now_s = 0.0

    def offered(at_s: float) -> float:
        nonlocal now_s
        now_s = at_s
        return float("inf")

    def model(workers: int) -> tuple[float, float]:
        return before(workers) if now_s < 200.0 else after(workers)

    found = follow(model, seconds=260.0, offered_per_s=offered)
    assert found[-1].size in right


def test_what_nothing_needs_for_long_is_let_go() -> None:
    """Down to twice of what was busy; never below what it begins with."""
    found = follow(
        sleeping(50e-3),
        seconds=60.0 + 4 * UNUSED_S,
        offered_per_s=lambda at_s: 1e6 if at_s < 60.0 else 400.0,
    )
    assert max(one.size for one in found) == THREADS.most
    assert THREADS.first <= found[-1].size <= 40


@pytest.mark.parametrize("bounds", [Bounds(1, 1, 1), Bounds(4, 8, 12), Bounds(20, 20, 24)])
@pytest.mark.parametrize("name", MODELS)
def test_it_stays_within_its_bounds(name: str, bounds: Bounds) -> None:
    """Whatever would be better."""
    found = follow(MODELS[name], bounds=bounds, seconds=60.0)
    assert {one.size for one in found} <= set(range(bounds.least, bounds.most + 1))


def test_many_small_losses_do_not_add_up() -> None:
    """Each step down may cost three percent of the best, not of the one before."""
    auto_per_s = 1_000.0

    def model(workers: int) -> tuple[float, float]:
        return auto_per_s * (1 - 0.008 * max(0, 16 - workers)), 1.0

    found = [one for one in follow(model, bounds=Bounds(1, 16, 16), seconds=900.0) if one.at_s > 60.0]
    assert min(one.size for one in found if not one.is_trying) >= 8


GUARDS = """
AutoSize._after_window: small losses add up, each compared with the try before alone
    LOSS * best_per_s -> LOSS * per_s
    by test_many_small_losses_do_not_add_up
_Way.has_failed: a try in vain is made again at once
    self.due_s = now_s + self._pause_s -> pass
    by test_at_a_steady_load_it_is_calm name="half and half", seed=0
AutoSize._after_window: numbers are tried where no record waits
    if not self._is_short: -> if False:
    by test_nothing_is_tried_where_no_record_waits
AutoSize._after_window: a full CPU is not noticed
    if is_full and -> if False and
    by test_a_handler_that_changes_gets_another_number_soon handlers="computes"
AutoSize._is_other_load: another load is not noticed
    return is_other or now_s - self._was_short_s > REST_S -> return False
    by test_a_handler_that_changes_gets_another_number_soon handlers="slows down"
"""


@pytest.mark.parametrize("mutant", table(GUARDS, print, auto_size, sys.modules[__name__]), ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a rule, some number is wrong."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
