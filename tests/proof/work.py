"""What a chain of groups has to do: topics, groups, and what each record asks for at each level.

Level 0 reads `level-0` and writes `level-1`, which is what level 1 reads, and so on. A value of any of these
topics begins with `number path actions milliseconds`: the record's number within its key, the places that its
ancestors had among the outputs of their records (`-` at first), an action for each level, and how long a call
takes. Behind that an output says what it is of: `partition offset member begin end`, the last two on the
host's monotonic clock in nanoseconds.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_PATH = "-"
PARTITIONS, DEAD_PARTITIONS = 6, 3
# The place of an output of an attempt that then fails or skips; no reader may see it.
IN_VAIN = 9
LARGE_BYTES = 300_000


class Action(NamedTuple):
    """What becomes of a record: the places of the outputs that it must have, and how many dead letters."""

    name: str
    places: tuple[int, ...] = ()
    letters: int = 0


ACTIONS: dict[str, Action] = {
    "1": Action("one", (0,)),
    "2": Action("two", (0, 1)),
    "0": Action("none"),
    # Its first attempt fails.
    "a": Action("again", (0,)),
    # Its key waits until a command of the app lets it go on, or until the time has come that it asks for.
    "h": Action("held", (0,)),
    "l": Action("later", (0,)),
    "s": Action("skip"),
    # All its attempts fail.
    "d": Action("doomed", (), 1),
    # Its only output, or its second one, is too large for the topic.
    "L": Action("large", (), 1),
    "B": Action("both", (), 1),
}
CODES = {action.name: code for code, action in ACTIONS.items()}


def input_topic(level: int) -> str:
    """Return what a level reads; what the level before it writes."""
    return f"level-{level}"


def output_topic(level: int) -> str:
    """Return what a level writes."""
    return input_topic(level + 1)


def dead_topic(level: int) -> str:
    """Return where the dead letters of a level go."""
    return f"dead-{level}"


def group_of(level: int) -> str:
    """Return the name of a level's group."""
    return f"group-{level}"


class Asked(NamedTuple):
    """What a value asks for at one level."""

    number: bytes
    path: bytes
    actions: bytes
    took_ms: bytes
    level: int

    @property
    def action(self) -> str:
        """The action's name."""
        return ACTIONS[chr(self.actions[self.level])].name

    @property
    def duration_s(self) -> float:
        """How long a call takes."""
        return int(self.took_ms) / 1000

    def output(self, place: int, source: tuple[int, int], mark: bytes, begin_ns: int, end_ns: int) -> bytes:
        """Return an output, which the next level reads; `source` is the record's partition and offset."""
        path = b"%d" % place if self.level == 0 else b"%b%d" % (self.path, place)
        head = b"%b %b %b %b" % (self.number, path, self.actions, self.took_ms)
        return b"%b %d %d %b %d %d" % (head, *source, mark, begin_ns, end_ns)


def asked_of(value: bytes | None, level: int) -> Asked:
    """Read what a value asks for at a level."""
    number, path, actions, took_ms = (value or b"").split(maxsplit=4)[:4]
    return Asked(number, path, actions, took_ms, level)


def first_value(number: int, actions: str, took_ms: int) -> str:
    """Return what the load writes."""
    return f"{number} {FIRST_PATH} {actions} {took_ms}"
