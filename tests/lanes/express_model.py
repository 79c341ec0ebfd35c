"""What the model of random histories with chunks knows of a partition and of a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from ehkafka.lanes.decision import HoldHead, RetryHead, SkipHead

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.lane import Lane
    from tests.kit.simulated.message import SimulatedMessage


PARTITIONS = 2
WORKERS = 3
COMMANDS = ["pause_key", "resume_key", "retry_key"]
COMMANDS_IN_ONE = ["pause_key in one", "resume_key in one"]
COMMANDS_TO_ALL = ["pause_all", "resume_all"]
# For it, a user's order function raises.
POISON = b"z"
partitions = st.integers(0, PARTITIONS - 1)
keys = st.sampled_from([b"a", b"b", b"c", b"d", POISON])
numbers = st.integers(0, WORKERS - 1)
decisions = st.sampled_from([RetryHead(1.0, "later"), HoldHead("poison"), SkipHead("no")])


BEGINNING = {
    "opened": st.booleans(),
    "batch": st.lists(keys, min_size=4, max_size=8),
    "records_max": st.sampled_from([0, 1, 2, 3, 4]),
    "share": st.integers(1, WORKERS),
}
SELDOM = [
    *("turn", "streams", "assign", "open", "drain", "end", "time"),
    *(*COMMANDS, *COMMANDS_IN_ONE, *COMMANDS_TO_ALL),
]
RARE = {
    "what": st.sampled_from(SELDOM),
    "partition": partitions,
    "key": keys,
    "flag": st.booleans(),
}
RECEIVED = {
    "partition": partitions,
    "batch": st.lists(keys, min_size=1, max_size=6),
    "hole": st.sampled_from([0, 0, 2]),
    "size": st.integers(1, 3),
    "old": st.sampled_from([0, 0, 0, 1]),
}


def users_key(message: SimulatedMessage) -> Hashable:
    """Order as a user's function may: by an object of its own, and not every record."""
    if message.key() == POISON:
        raise ValueError("no key for this one")
    return ("own", message.key())


@dataclass
class Epoch:
    """What the model knows of an assignment: every record, and what became of it."""

    assignment: Assignment
    keys: dict[int, bytes] = field(default_factory=dict)
    # Without an outcome, in order; those of them whose handler runs.
    open: dict[int, bytes] = field(default_factory=dict)
    running: set[int] = field(default_factory=set)
    # Those whose handler has returned.
    handled: set[int] = field(default_factory=set)
    watermark: int = 0
    # Whether all that was started below it was to be finished before the end, and could be.
    leaves_no_hole: bool = False


@dataclass
class Worker:
    """One thread: what it has, which record its handler was called for, and how that ended."""

    one: Lane | Chunk | None = None
    message: Any = None
    state: str = "idle"
    decision: Decision | None = None
