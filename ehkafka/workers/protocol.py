"""What every kind of worker pool is to the app: threads now, asyncio, processes and batches later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.decision import Decision
    from ehkafka.lanes.lane import Lane
    from ehkafka.recovery.pending import PendingAnswers

# One turn of a lane ends after so many records, or after `TURN_S` or the like, whichever comes first, so that
# every other ready lane is served in a bounded time. Turns that grow would need state in each lane.
TURN_RECORDS_MAX = 64


class RunChunk(Protocol):
    """Calls the user's handler for what a chunk's iterator yields, one record after another.

    The chunk's keys, where they were read already, may be more than the iterator yields.
    """

    def __call__(self, chunk: Chunk, /) -> bool:
        """Take no record before the last one's call has returned. Raises what the handler raises.

        Return True as soon as any record is deferred, False at the end.
        """


class Failures(Protocol):
    """Decides what becomes of a record whose handler raised. Called on the worker's thread."""

    def __call__(self, lane: Lane, error: BaseException, /) -> Decision:
        """Never raises; may call user code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """What threads, tasks, batches and processes are all given: `size` workers for the handler `name`.

    `set_up` and `tear_down` run in each thread, or once on the loop. `deferrals` are the handler's deferred
    records; None: it cannot defer any. `on_death` hears what a worker died of.
    """

    name: str
    size: int
    on_failure: Failures
    on_death: Callable[[BaseException], None]
    set_up: Callable[[], Any] | None = None
    tear_down: Callable[[], Any] | None = None
    deferrals: PendingAnswers | None = None
    turn_records_max: int = TURN_RECORDS_MAX


class Workers(Protocol):
    """A pool that executes one handler.

    A pool may assume that `Dispatcher.begin` gives each lane to one holder at a time. It must call the
    handler for one head after another, only while `Lane.may_run_head` says so, hand each lane in exactly
    once per `begin`, and never touch a lane after that. It may *not* assume that a handed-in lane comes
    back to the same worker, nor that anybody waits for a result whose epoch ended.
    """

    @property
    def size(self) -> int:
        """How many workers it has; those that leave once their record has ended do not count."""

    def start(self) -> None:
        """Start the workers and run the users' per-worker set-up. Raises what a set-up raises."""

    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds.

        May be called again to wait longer.
        """

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread is called by the pool, so that waiting for it would never end."""

    def stacks(self) -> dict[str, str]:
        """Return where each busy worker is, by name, for a stuck report."""


class Gate(Protocol):
    """What a worker that found nothing is woken by: a locked lock, or a loop's own kind."""

    def release(self) -> object:
        """Wake the worker. Any thread."""


@runtime_checkable
class Resizable(Workers, Protocol):
    """A pool whose number of workers can change while it runs."""

    # The most that it may be given.
    size_max: int

    def resize(self, size: int) -> None:
        """Change the number, 1 or more. Raises what a new worker's set-up raises: then all is as before."""


@runtime_checkable
class Counting(Resizable, Protocol):
    """A pool that knows how many of its workers have something, so that their number may be found out."""

    @property
    def busy(self) -> int:
        """How many have a record now. Any thread; a guess."""


@runtime_checkable
class Cancelling(Protocol):
    """A pool that can end calls before they return."""

    def cancel_ended(self) -> None:
        """Cancel the calls whose epoch has ended: nobody waits for their results. Returns at once."""


@runtime_checkable
class Checking(Protocol):
    """A pool on something that others may end."""

    def check(self) -> None:
        """Notice that it has ended. Poll thread, twice a second; returns at once."""


@runtime_checkable
class Releasing(Protocol):
    """A pool that can end by force those of its workers that nobody waits for any more."""

    def let_go(self) -> None:
        """End them, after the last `stop`; their records stay unfinished. Returns within a second."""
