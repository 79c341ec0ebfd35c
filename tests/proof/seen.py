"""What was read of one level: its inputs, its outputs and its dead letters, in a few bytes for each record.

An input is at its offset of its partition; transactions leave holes. A few of each key's last outputs are
kept whole, which shows whether two of its records were handled at once.
"""

from __future__ import annotations

import math
import time
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.proof.work import ACTIONS, IN_VAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLE, MOST = 0, 255
# Such an action ends with a dead letter for an output that its topic refuses.
REFUSED = frozenset(code for code, action in ACTIONS.items() if action.name in {"large", "both"})
# So many handled records of a key are compared with its next one.
COMPARED = 16
# An output's place is below these bits of its offset.
PLACE_BITS = 4


class Names:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, name: bytes) -> int:
        """Return the number of a name, a new one for a new name."""
        return self._numbers.setdefault(name, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


class Log:
    """What one partition of a level's inputs has, and what became of each record."""

    def __init__(self) -> None:
        # The code of its action, its key's number, and how often its outputs and its dead letter were seen.
        self.actions = bytearray()
        self.keys = array("H")
        self.first, self.second, self.letters = bytearray(), bytearray(), bytearray()

    def reach(self, offset: int) -> None:
        """Have a place for an offset, with holes below."""
        if (more := offset + 1 - len(self.actions)) > 0:
            for counts in (self.actions, self.first, self.second, self.letters):
                counts.extend(bytes(more))
            self.keys.extend([0] * more)

    def offsets(self) -> Iterator[int]:
        """Yield the offsets that have an input."""
        return (offset for offset, code in enumerate(self.actions) if code != HOLE)


class Handled(NamedTuple):
    """When a member has handled a record."""

    partition: int
    offset: int
    member: bytes
    begin_ns: int
    end_ns: int

    def overlaps(self, other: Handled) -> bool:
        """Tell whether two records were handled at once. Those of one batch have begun together."""
        if (self.partition, self.offset) == (
            other.partition,
            other.offset,
        ) or self.partition != other.partition:
            return False
        is_one_call = self.member == other.member and self.begin_ns == other.begin_ns
        return not is_one_call and self.begin_ns < other.end_ns and other.begin_ns < self.end_ns


class Seen:
    """All that was read of one level. `keys` numbers the keys of all levels alike."""

    def __init__(self, level: int, keys: Names, partitions: int) -> None:
        self.level = level
        self.keys = keys
        self.logs = [Log() for _ in range(partitions)]
        self.records = self.outputs = self.dead = 0
        # Of each key, its outputs in their order: offset and place in one number.
        self.of_key: list[array[int]] = []
        # Records of what was read since `take_fresh`, each with when the call of its first output ended.
        self.fresh: dict[tuple[int, int], int] = {}
        # Of each key, the records that have dead letters, as these come.
        self.letters_of_key: list[array[int]] = []
        # Records with an output that its topic refuses, and when their dead letter was read.
        self._refused_s: dict[tuple[int, int], float] = {}
        # Outputs that no attempt may show, or whose key is not their record's; and a key's second partition.
        self.stray: list[tuple[int, int, int]] = []
        self.two_partitions: list[tuple[int, int]] = []
        # Two records of one key at once in one member, and in two of them.
        self.overlaps: list[tuple[Handled, Handled]] = []
        self.overlaps_of_two = 0
        self._partition_of: dict[int, int] = {}
        self._handled: dict[int, deque[Handled]] = {}

    def input(self, message: Any) -> None:
        """Note an input."""
        log, offset = self.logs[message.partition()], message.offset()
        log.reach(offset)
        _, _, actions, _ = message.value()[:64].split(maxsplit=4)[:4]
        log.actions[offset] = actions[self.level]
        log.keys[offset] = self.keys.number(message.key())
        self.records += 1
        if chr(actions[self.level]) in REFUSED:
            self._refused_s[message.partition(), offset] = (
                time.monotonic() if log.letters[offset] else math.inf
            )

    def output(self, message: Any) -> None:
        """Note an output."""
        _, path, _, _, partition_text, offset_text, member, begin, end = message.value()[:160].split()[:9]
        partition, offset, place = int(partition_text), int(offset_text), int(path[-1:])
        key = self.keys.number(message.key())
        is_first = self._count(partition, offset, place)
        self.outputs += 1
        sent_ns = self.fresh.setdefault((partition, offset), 0)
        if is_first:
            self.fresh[partition, offset] = max(sent_ns, int(end))
        _of_key(self.of_key, key).append(code_of(partition, offset, place))
        if self._partition_of.setdefault(key, message.partition()) != message.partition():
            self.two_partitions.append((partition, offset))
        self._compare(key, Handled(partition, offset, member, int(begin), int(end)))

    def letter(self, message: Any) -> None:
        """Note a dead letter."""
        headers = dict(message.headers())
        partition, offset = int(headers["ehkafka-origin-partition"]), int(headers["ehkafka-origin-offset"])
        log = self.logs[partition]
        log.reach(offset)
        log.letters[offset] = min(log.letters[offset] + 1, MOST)
        self.fresh.setdefault((partition, offset), 0)
        self.dead += 1
        _of_key(self.letters_of_key, self.keys.number(message.key())).append(code_of(partition, offset))
        if (partition, offset) in self._refused_s:
            self._refused_s[partition, offset] = time.monotonic()

    def take_fresh(self) -> set[tuple[int, int]]:
        """Return the records of what was read since the last call."""
        fresh, self.fresh = self.fresh, {}
        return {*fresh}

    def refuses(self, partitions: set[int], since_s: float) -> bool:
        """Tell whether an output of these partitions' records may have been refused since then.

        Any thread asks. A record counts from when it is read until its dead letter is.
        """
        return any(
            partition in partitions and letter_s >= since_s
            for (partition, _), letter_s in self._refused_s.copy().items()
        )

    def lacks(self, partition: int, offset: int) -> str:
        """Return what an input has not sent; nothing where there is no input."""
        log = self.logs[partition]
        if offset >= len(log.actions) or (code := log.actions[offset]) == HOLE:
            return ""
        action = ACTIONS[chr(code)]
        counts = log.first[offset], log.second[offset]
        missing = [f"output {place}" for place in action.places if not counts[place]]
        missing += ["dead letter"] if action.letters and not log.letters[offset] else []
        return f"({action.name}) has no {', no '.join(missing)}" if missing else ""

    def must_have(self, partition: int, offset: int) -> bool:
        """Tell whether an input must have an output."""
        log = self.logs[partition]
        return bool(offset < len(log.actions) and (code := log.actions[offset]) and ACTIONS[chr(code)].places)

    def is_done(self, next_offsets: list[int]) -> bool:
        """Tell whether commits cover all inputs."""
        return all(len(log.actions) <= end for log, end in zip(self.logs, next_offsets, strict=True))

    def _count(self, partition: int, offset: int, place: int) -> bool:
        """Count an output; tell whether it is the first one of its place."""
        if place == IN_VAIN:
            self.stray.append((partition, offset, place))
            return False
        log = self.logs[partition]
        log.reach(offset)
        counts = log.second if place else log.first
        counts[offset] = min(counts[offset] + 1, MOST)
        return counts[offset] == 1

    def _compare(self, key: int, handled: Handled) -> None:
        earlier = self._handled.setdefault(key, deque(maxlen=COMPARED))
        for other in earlier:
            if handled.overlaps(other):
                if handled.member == other.member:
                    self.overlaps.append((other, handled))
                else:
                    self.overlaps_of_two += 1
        earlier.append(handled)


def code_of(partition: int, offset: int, place: int = 0) -> int:
    """Return an output in one number; those of a partition's records in their order."""
    return partition << 48 | offset << PLACE_BITS | place


def _of_key(of_each: list[array[int]], key: int) -> array[int]:
    while len(of_each) <= key:
        of_each.append(array("Q"))
    return of_each[key]
