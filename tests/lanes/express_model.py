"""What the model of random histories with chunks knows of a partition and of a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.lane import Lane


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
