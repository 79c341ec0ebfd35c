"""A route: from one or more topics to one handler, with its inboxes and workers.

Built by the app before any thread starts, then read by the poll thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.order import KeyReader
    from ehkafka.recovery.pending import PendingAnswers
    from ehkafka.workers.attempt_clock import AttemptClock
    from ehkafka.workers.auto import Bounds
    from ehkafka.workers.hub import Hub
    from ehkafka.workers.protocol import Workers


@dataclass(frozen=True, slots=True)
class Route:
    """One handler's side of the intake.

    `open` and `close` run on the hook thread, around all records of an epoch; None when the handler
    is a plain function.
    """

    name: str
    topics: tuple[str, ...]
    hub: Hub
    keys: KeyReader
    workers: Workers
    # The handler's own name: the function's or the class's.
    handler: str = ""
    # Since when its calls run, where it has a deadline and runs on threads; its deferred records.
    attempts: AttemptClock | None = None
    deferrals: PendingAnswers | None = None
    open: Callable[[Epoch], None] | None = None
    close: Callable[[Epoch, str], None] | None = None
    # How long a call may take; 0 without a limit.
    deadline_s: float = 0.0
    # Between which numbers its workers are to be found out; None where their number is given.
    auto: Bounds | None = None
    # What became of attempts that failed, see `recovery.failures`.
    failed_attempts: Mapping[str, int] = field(default_factory=dict)
