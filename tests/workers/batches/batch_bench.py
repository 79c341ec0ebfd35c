"""A workbench around batch workers that go by steps: no threads, and time is a field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.workers.batches.results import Results
from ehkafka.workers.batches.taking import BatchLimits
from ehkafka.workers.batches.workers import BatchWorkers
from ehkafka.workers.hub import Hub
from ehkafka.workers.protocol import PoolOptions
from tests.kit.inbox_bench import InboxBench, read, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.lanes.decision import Attempt, Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records.batch import Result


class BatchBench(InboxBench):
    """Drives batch workers as their threads and the poll thread do.

    `handle` is the handler: it is given the records of a batch as they are written, and returns results by
    their places, or raises. `decide` is what the failure policy decides about a record.
    """

    def __init__(
        self,
        scope: Any = "partition",
        *,
        consumers: int = 1,
        records_max: int = 8,
        bytes_max: int | None = None,
        wait_s: float = 0.0,
    ) -> None:
        super().__init__(scope, consumers=consumers)
        self.router.idle.clear()  # consumers of batches ask for nothing
        if self.leaves_keys_unread:
            self.inboxes = Inboxes(consumers, scope, read_keys=self.reader.keys)
            self.router, self.waiting = self.inboxes.router, self.inboxes.waiting
        self.inboxes.check(0.0)
        self.hub = Hub(self.inboxes, lambda: self.now_s)
        self.batches: list[list[str]] = []
        self.failed: list[tuple[str, int]] = []
        self.events: list[Any] = []
        self.handle: Callable[[list[str]], Mapping[int, Result]] = lambda _records: {}
        self.decide: Callable[[str], Decision] = lambda _record: HoldHead("failed")
        # What happens while a handler runs.
        self.meanwhile: Callable[[], object] = lambda: None
        self.workers = BatchWorkers(
            self.hub,
            PoolOptions(name="h", size=consumers, on_failure=self._decided, on_death=_raise),
            call=self,
            limits=BatchLimits(records_max=records_max, bytes_max=bytes_max, wait_s_max=wait_s),
            emit=self.events.append,
        )

    leaves_keys_unread: ClassVar[bool] = False

    def receive(self, epoch: Epoch, records: str, **options: Any) -> list[Any]:
        """Receive the records written down."""
        if not self.inboxes.router.unread.needs_no_keys():
            return super().receive(epoch, records, **options)
        messages = [read(epoch.partition, text, options) for text in records.split()]
        self.inboxes.receive(epoch, messages, None, self.now_s)
        self.inboxes.take_touched()
        return messages

    def __call__(self, entries: Sequence[Entry]) -> Results | None:
        """Be the handler."""
        records = [written(entry) for entry in entries]
        self.batches.append(records)
        self.meanwhile()
        reported = self.handle(records)
        return Results.of(self.inboxes.router.unread.with_keys(entries), reported) if reported else None

    def _decided(self, attempt: Attempt, _error: BaseException) -> Decision:
        self.failed.append((written(attempt.entry), attempt.number))
        return self.decide(written(attempt.entry))

    def slow(self) -> None:
        """Let calls have taken long, so that all workers get records."""
        self.workers._width.note_call(1, 1.0, 0.0)
        self.check(self.now_s + 0.001)

    def run(self, number: int = 0) -> list[str] | None:
        """Let a worker run the batch that goes now; return its records, None where none goes."""
        workers, inbox = self.workers, self.inboxes.inboxes[number]
        if not (entries := workers._take(inbox)):
            return None
        workers._run(inbox, entries)
        return [written(entry) for entry in entries]

    def run_all(self) -> list[list[str]]:
        """Let all workers run whatever goes now; return the batches."""
        ran: list[list[str]] = []
        while batches := [
            batch for number in range(len(self.workers._workers)) if (batch := self.run(number))
        ]:
            ran += batches
        return ran


def _raise(error: BaseException) -> None:
    raise error
