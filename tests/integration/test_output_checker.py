"""A group of all kinds of workers sends as is promised; what breaks a promise is seen.

The outside checker for each mode and kind of workers, with all faults, for so many seconds each:

    STRESS_SECONDS=60 scripts/test --no-lint -k test_output_checker
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.output_checker import check
from tests.integration.output_member import BROKEN
from tests.integration.output_options import WORKERS
from tests.integration.output_verdict import Commit, Seen

if TYPE_CHECKING:
    from collections.abc import Callable


SECONDS = float(os.environ.get("STRESS_SECONDS", "0"))
ON_DEMAND = pytest.mark.skipif(not SECONDS, reason="runs where STRESS_SECONDS says for how long")
MODES = pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
NOTHING = Commit(0, ())


@pytest.mark.broker
@MODES
def test_a_group_of_all_kinds_of_workers_of_which_members_are_killed_and_stopped(mode: str) -> None:
    """Each takes over what another one has left, with refused outputs and ranges that do not fit."""
    group = ["--kind", ",".join(WORKERS), "--members", str(len(WORKERS))]
    faults = ["--faults", "kill", "--seconds", "1.5", "--metadata-bytes", "64"]
    result = check("--mode", mode, *group, *faults, "--rate", "80", "--refused-every", "300")
    assert not result["violations"], f"FACT: {result}"
    assert result["faults"]["kill"], result
    assert result["ranges_seen"], result
    assert result["letters"], result


@ON_DEMAND
@pytest.mark.broker
@pytest.mark.timeout(600 + 4 * SECONDS)
@MODES
@pytest.mark.parametrize("kind", WORKERS)
def test_all_faults(mode: str, kind: str) -> None:
    """Members and the broker are killed and frozen, and a guest comes and goes."""
    faults = ["--seconds", str(SECONDS), "--metadata-bytes", "64"]
    result = check("--mode", mode, "--kind", kind, *faults)
    assert not result["violations"], f"FACT: {result}"


@ON_DEMAND
@pytest.mark.broker
@pytest.mark.timeout(600 + 4 * SECONDS)
@pytest.mark.parametrize("kind", WORKERS)
def test_kills_forgotten_producers_and_closed_connections(kind: str) -> None:
    """All producers are forgotten again and again, by each of the errors in turn."""
    faults = ["--faults", "kill,forget,cut,broker-restart,rebalance", "--seconds", str(SECONDS)]
    result = check("--kind", kind, *faults)
    assert not result["violations"], f"FACT: {result}"


@ON_DEMAND
@pytest.mark.broker
@pytest.mark.timeout(600 + 4 * SECONDS)
def test_static_members_take_over_their_own_transactions() -> None:
    """One that comes back with its instance id has its transactional id: the broker ends what was open."""
    group = ["--mode", "exactly-once", "--kind", "threads,tasks", "--static"]
    result = check(*group, "--faults", "kill,stop,roll", "--seconds", str(SECONDS))
    assert not result["violations"], f"FACT: {result}"


@pytest.mark.broker
def test_a_member_that_breaks_each_promise() -> None:
    """What is late has arrived by the end, so that more is early than lost."""
    faults = ["--faults", "none", "--seconds", "2", "--members", "1", "--refused-every", "0"]
    found = check("--mode", "exactly-once", *faults, "--broken", ",".join(BROKEN))["violations"]
    assert found["early"] > found["lost"] > 0, found
    assert found["order"] > 0, found
    assert found["repeated"] > 0, found


class Message:
    """A message of a topic, as a reader gets it."""

    def __init__(self, partition: int, offset: int, value: str, key: str = "a", **headers: str) -> None:
        self.partition = lambda: partition
        self.offset = lambda: offset
        self.value = value.encode
        self.key = key.encode
        self.headers = lambda: [(name.replace("_", "-"), text.encode()) for name, text in headers.items()]


def seen_of(
    outputs: list[str],
    actions: tuple[str, ...] = ("one", "two"),
    letters: tuple[int, ...] = (),
    **how: Any,
) -> Seen:
    """Return what is seen where inputs of a key ask for these actions; outputs are `offset place`."""
    seen = Seen(1, exactly_once=how.get("exactly_once", False), is_strict=how.get("is_strict", False))
    for offset, action in enumerate(actions):
        seen.input(Message(0, offset, f"{offset + 1} {action} 0"))
    for at, text in enumerate(outputs):
        offset, place = map(int, text.split())
        seen.output(Message(how.get("to", [0] * 9)[at], at, f"0 {offset} {offset + 1} {place}"))
    for at, offset in enumerate(letters):
        where = {"ehkafka_origin_partition": "0", "ehkafka_origin_offset": str(offset)}
        seen.letter(Message(0, at, "", **where))
    return seen


RIGHT = ["0 0", "1 0", "1 1"]


@pytest.mark.parametrize(
    ("see", "violations"),
    [
        (partial(seen_of, RIGHT), {}),
        (partial(seen_of, ["0 0", "1 0"]), {"lost": 1}),
        (partial(seen_of, ["0 0", "1 1", "1 0"]), {"order": 1, "last": 1}),
        (partial(seen_of, ["1 0", "0 0", "1 0", "1 1"]), {"order": 1}),
        (partial(seen_of, ["0 0", "0 0", *RIGHT]), {}),
        (partial(seen_of, [*RIGHT, *RIGHT]), {}),
        (partial(seen_of, [*RIGHT, "1 0"]), {"last": 1}),
        (partial(seen_of, RIGHT, to=[0, 1, 1]), {"two_partitions": 1}),
        (partial(seen_of, ["0 0", *RIGHT], exactly_once=True), {"repeated": 1}),
        (partial(seen_of, RIGHT, letters=(0,)), {"unexpected": 1}),
        (partial(seen_of, [], ("doomed",)), {"lost": 1}),
        (partial(seen_of, [], ("doomed",), (0,)), {}),
        (partial(seen_of, [], ("doomed",), (0, 0)), {}),
        (partial(seen_of, [], ("doomed",), (0, 0), exactly_once=True), {"repeated": 1}),
        (partial(seen_of, ["0 9"], ("doomed",), (0,)), {"unexpected": 1}),
        (partial(seen_of, ["0 0"], ("both",), (0,)), {}),
        (partial(seen_of, ["0 0"], ("both",), (0,), is_strict=True), {"unexpected": 1}),
    ],
)
def test_what_is_wrong_at_the_end(see: Callable[[], Seen], violations: dict[str, int]) -> None:
    """Repeats are right at least once, as long as a key ends with its last output."""
    seen = see()
    seen.judge()
    assert seen.violations == violations, seen.shown


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
    seen = seen_of(["0 0", "1 0"], exactly_once=True)
    sent = seen.take_fresh() - {(0, 1)}
    seen.check([commit], sent)
    assert seen.violations == violations, seen.shown


@pytest.mark.parametrize(("exactly_once", "violations"), [(True, {"uncovered": 1}), (False, {})])
def test_what_is_read_before_a_commit_is_covered_by_it_exactly_once(
    exactly_once: bool, violations: dict[str, int]
) -> None:
    """At least once, an output is sent before."""
    seen = seen_of(RIGHT[:1], exactly_once=exactly_once)
    seen.check([NOTHING], seen.take_fresh())
    assert seen.violations == violations
    assert not seen.take_fresh()
