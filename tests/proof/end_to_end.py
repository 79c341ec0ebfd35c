"""Whether a chain as a whole keeps its promises: what its first level reads against what its last one writes.

A record is known by its number within its key, and what became of it by its path: an action for each level
says which paths it must have in the end.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.proof.verdict import Order
from tests.proof.work import ACTIONS

if TYPE_CHECKING:
    from tests.proof.seen import Names
    from tests.proof.violations import Violations

# Paths are below these bits of a number.
PATH_BITS = 8


class EndToEnd:
    """Reads both ends of a chain, and judges."""

    def __init__(self, keys: Names, violations: Violations, *, exactly_once: bool) -> None:
        self.keys, self.violations, self.exactly_once = keys, violations, exactly_once
        self.repeated = 0
        # Records, by key and number, that the load itself has repeated.
        self.written_again: set[tuple[int, int]] = set()
        self._actions: dict[int, list[bytes]] = defaultdict(list)
        self._ends: dict[int, array[int]] = defaultdict(lambda: array("Q"))

    def first(self, message: Any) -> None:
        """Note an input of the first level: a key's numbers go up by one, or come again."""
        number, _, actions, _ = message.value()[:64].split(maxsplit=4)[:4]
        key = self.keys.number(message.key())
        of_key = self._actions[key]
        if int(number) <= len(of_key):
            # A client that asks for a new producer id sends again what may be written.
            self.written_again.add((key, int(number)))
            return
        of_key.append(one_object(actions))
        if int(number) != len(of_key):
            self.violations.blame("load", f"{message.key()!r} has {int(number)} at place {len(of_key)}")

    def last(self, message: Any) -> None:
        """Note an output of the last level."""
        number, path, *_ = message.value()[:64].split(maxsplit=2)
        if path.translate(None, b"01"):
            return  # it is of an attempt that no reader may see; its level says so
        self._ends[self.keys.number(message.key())].append(int(number) << PATH_BITS | int(path, 2))

    def written(self, numbers: list[int]) -> None:
        """Compare with what the load has written."""
        found = sum(map(len, self._actions.values()))
        if found != sum(numbers):
            self.violations.blame("load", f"{sum(numbers)} records were acknowledged, {found} are there")

    def judge(self) -> None:
        """Look at each key."""
        for key, actions in self._actions.items():
            expected = array("Q")
            for number, asked in enumerate(actions, 1):
                expected.extend(number << PATH_BITS | path for path in paths_of(asked))
            self._judge_key(key, expected, self._ends[key])

    def _judge_key(self, key: int, expected: array[int], ends: array[int]) -> None:
        missing, order = {*expected} - {*ends}, Order(expected, ends)
        for code in sorted(missing):
            self.violations.blame("lost_end_to_end", f"key {key} has no {words_of(code)}")
        for code, by in order.passed:
            text = f"{words_of(code)} was passed by {words_of(by)}"
            self.violations.blame("order_end_to_end", f"key {key}: {text}")
        if order.ends_with is not None:
            text = f"key {key} ends with {words_of(order.ends_with)}, which is repeated"
            self.violations.blame("last_end_to_end", text)
        again = {number for of_key, number in self.written_again if of_key == key}
        ends = array("Q", (code for code in ends if code >> PATH_BITS not in again)) if again else ends
        repeated = len(ends) - len({*ends})
        self.repeated += repeated
        if repeated and self.exactly_once:
            self.violations.blame("repeated_end_to_end", f"key {key} has {repeated} outputs once more")


@cache
def one_object(actions: bytes) -> bytes:
    """Return the same object for the same actions: there are few of them for very many records."""
    return actions


@cache
def paths_of(actions: bytes) -> tuple[int, ...]:
    """Return the paths that a record must have behind the last level, in order."""
    places = [ACTIONS[chr(code)].places for code in actions]
    return tuple(int("".join(map(str, path)), 2) for path in product(*places))


def words_of(code: int) -> str:
    """Return an output's number and path in words."""
    return f"number {code >> PATH_BITS} path {code & (1 << PATH_BITS) - 1:b}"
