"""The interface of each kind of worker pool: threads, asyncio, processes and batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.recovery.unrun import must_return_nothing

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable

    from ehkafka.lanes.decision import Attempt, Decision
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import Message
    from ehkafka.recovery.pending import PendingAnswers

    # What workers call with a record and the number of its attempt, 1 for the first.
    Invoke = Callable[[Entry, int], object]
    # The same for a record whose key is unread, at its first attempt: with the message only.
    PlainCall = Callable[[Message], object]
    InvokeAsync = Callable[[Entry, int], Awaitable[object]]
    # Decides what becomes of a record whose handler raised. Called on the worker's thread, never raises, and
    # may call user code.
    Failures = Callable[[Attempt, BaseException], Decision]


# What goes around each call for a record, given that and the number of its attempt: it hears what is raised.
Around = Callable[["Entry", int], AbstractContextManager[object]]


def within(invoke: Callable[[Entry, int], Any], around: Around, *, is_async: bool) -> Any:
    """Return `invoke` with each call in a context of its own; what it returns is looked at there."""

    def call(entry: Entry, number: int) -> None:
        with around(entry, number):
            if (result := invoke(entry, number)) is not None:
                must_return_nothing(result)

    async def call_async(entry: Entry, number: int) -> None:
        with around(entry, number):
            if (result := await invoke(entry, number)) is not None:
                must_return_nothing(result)

    return call_async if is_async else call


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """The arguments of threads, tasks, batches and processes: `size` workers for the handler `name`.

    `set_up` and `tear_down` run in each thread, or once on the loop. `deferrals` are the handler's deferred
    records; None: it cannot defer any. `on_death` hears what a worker died of.
    """

    name: str
    size: int
    on_failure: Failures
    on_death: Callable[[BaseException], None]
    set_up: Callable[[], object] | None = None
    tear_down: Callable[[], object] | None = None
    deferrals: PendingAnswers | None = None


class Workers(ABC):
    """A pool that executes one handler.

    Each of its workers is the consumer of one inbox, by the protocol of `lanes.inbox`, and sets the hub's
    `wake`. It may assume that what it may not start is taken back. It may *not* assume that a key's next
    record comes to the same worker, nor that any result of an ended epoch counts.
    """

    # The most workers that it may be given.
    size_max: int

    @property
    @abstractmethod
    def size(self) -> int:
        """How many workers it has; those that leave once their record has ended do not count."""

    @abstractmethod
    def start(self) -> None:
        """Start the workers and run the users' per-worker set-up. Raises what a set-up raises."""

    @abstractmethod
    def stop(self, timeout_s: float) -> list[str]:
        """Let idle workers leave; return the names of those still busy after `timeout_s` seconds.

        May be called again to wait longer.
        """

    @abstractmethod
    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether code on this thread is called by the pool, so that waiting for it would never end."""

    @abstractmethod
    def stacks(self) -> dict[str, str]:
        """Return where each busy worker is, by name, for a stuck report."""

    @abstractmethod
    def resize(self, size: int) -> None:
        """Change the number, 1 or more. Raises what a new worker's set-up raises: then all is as before."""

    def cancel_ended(self) -> None:  # noqa: B027 - only calls on a loop can be
        """Cancel the calls whose epoch has ended: nothing waits for their results. Returns at once."""

    def check(self) -> None:  # noqa: B027 - threads are our own
        """Notice the end of what it works on. Poll thread, twice a second; returns at once."""

    def let_go(self) -> None:  # noqa: B027 - threads are daemons
        """End by force what is left after the last `stop`, within a second; its records stay unfinished."""
