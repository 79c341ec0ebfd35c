"""Pools of processes on one hub, without a broker, and the handlers that their children run."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.handlers.call import HandlerCall
from ehkafka.headers.size import sizes_of
from ehkafka.lanes.decision import RetryHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.output import Source, outputs_of
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.pending import PendingAnswers
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.option import Processes
from ehkafka.workers.processes.workers import ProcessWorkers
from ehkafka.workers.protocol import PoolOptions
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.outputs.output import Output

CODE = Path(__file__).parent / "process_code"
LIMIT_S = 30.0


class Crew:
    """A pool of processes on one hub, without a broker; failed records come again at once."""

    def __init__(self, directory: Path, handlers: Any, count: int = 1, **options: Any) -> None:
        self.directory = directory
        self.inboxes = Inboxes(count, make_inbox=ChildInbox)
        self.hub = Hub(self.inboxes, time.monotonic, options.pop("pace", None))
        self.epoch = self.inboxes.assign(TopicPartition("t", 0), 1)
        self.failed: list[tuple[Any, BaseException]] = []
        self.deaths: list[BaseException] = []
        self.events = Events()
        self.stops: list[tuple[Any, float | None]] = []
        self.next_offset = 0
        self.outlet: Outlet | None = None
        if options.pop("sends", False):
            self.outlet = Outlet(
                options.pop("outputs", None) or Unacknowledged(),
                handler="crew",
                topics=("out", "more"),
                bytes_max=options.pop("bytes_max", 1_000_000),
                judge=print,
                before_next=options.pop("before_next", False),
            )
        middleware = options.pop("middleware", ())
        settings = {name: options.pop(name) for name in ("batch_s",) if name in options}
        self.workers = ProcessWorkers(
            self.hub,
            Processes(count, **settings),
            options=PoolOptions(
                name="crew",
                size=count,
                on_failure=self._failed,
                on_death=self.deaths.append,
                deferrals=None if self.outlet is None else self._deferrals(),
                **{name: options.pop(name) for name in ("set_up", "tear_down") if name in options},
            ),
            call=HandlerCall(
                options.pop("function", handlers.handle),
                middleware,
                Record,
                maker=None if self.outlet is None else self.outlet.maker,
            ),
            parts={},
            outlet=self.outlet,
            on_stop=lambda drain, timeout_s: self.stops.append((drain, timeout_s)),
            emit=self.events.append,
            **options,
        )

    @property
    def failures(self) -> list[tuple[int, BaseException]]:
        """The offset of each failed attempt's record, and its error."""
        return [(message.offset(), error) for message, error in self.failed]

    def _deferrals(self) -> PendingAnswers:
        return PendingAnswers(
            answer=self.hub.answer,
            failures=self._failed,
            emit=self.events.append,
            history=None,
            clock=time.monotonic,
            is_running=self.hub.is_running,
        )

    def _failed(self, attempt: Any, error: BaseException) -> RetryHead:
        self.failed.append((attempt.message, error))
        return RetryHead(0.0, "again")

    def outputs(self) -> list[Output]:
        """All outputs that are not acknowledged, in their order."""
        assert self.outlet is not None
        return list(outputs_of(self.outlet.outputs.added.copy()))

    def acknowledge(self) -> list[int]:
        """Acknowledge what is put so far, as the sender does; return the offsets of its records."""
        assert self.outlet is not None
        outputs = self.outlet.outputs
        with outputs.lock:
            taken = outputs.take(len(outputs.added))
            outputs.let_go(taken)
        found = list(outputs_of(taken))
        for output in found:
            if isinstance(output.source, Source):
                output.source.acknowledged()
        return [offset_of(output) for output in found]

    def sent(self) -> list[tuple[int, str]]:
        """The offset of the record that each of them is of, and its value."""
        return [(offset_of(one), (one.value or b"-").decode()) for one in self.outputs()]

    def receive(self, *values: str, keys: str | None = None) -> None:
        """Hand over records, each of its own key, or of the keys given as letters."""
        batch = []
        for number, value in enumerate(values):
            offset = self.next_offset + number
            key = keys[number].encode() if keys else b"%d" % offset
            batch.append(SimulatedMessage("t", 0, offset, key, value.encode(), headers=[("a", b"\x00\xff")]))
        self.next_offset += len(batch)
        self.hub.receive([(self.epoch, batch, [m.key() for m in batch], (), sizes_of(batch))])

    def wait(self, true: Callable[[], Any], timeout_s: float = LIMIT_S) -> Any:
        """Wait for it as the poll thread would, which lets retries go and balances."""

        def check() -> None:
            self.hub.watch()
            time.sleep(0.002)

        what = lambda: f"{words_of(true)} (failed: {self.failures[-3:]}, died: {self.deaths})"  # noqa: E731
        return wait_until(true, what, timeout_s, meanwhile=check)

    def finish_all(self) -> None:
        """Wait until each record has finished."""
        self.wait(lambda: self.finished() == self.next_offset)

    def finished(self) -> int:
        """How many records have finished."""
        return self.hub.count_finished()

    def watermark(self) -> int | None:
        """Up to where all records have finished."""
        with self.hub.locked():
            return self.epoch.watermark()

    def warm_up(self) -> None:
        """Let the pool find out that records are cheap, so that batches are large."""
        self.receive(*["x"] * 300)
        self.finish_all()

    def lines(self, word: str) -> list[list[str]]:
        """What the handlers noted with this word."""
        path = self.directory / "lines"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split(" ")[1:] for line in lines if line.startswith(word + " ")]

    def close(self) -> None:
        """Let the workers leave, and see that no process is left."""
        (self.directory / "gate").touch()
        pids = self.workers.pids
        self.workers.stop(10.0)
        self.workers.let_go()
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def offset_of(output: Output) -> int:
    """Return the offset of the record that an output is of."""
    offset: int = output.entries[0][MESSAGE].offset()
    return offset


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the handlers as a child will."""
    monkeypatch.syspath_prepend(str(CODE))
    module = importlib.import_module("process_handlers")
    monkeypatch.setenv(module.DIRECTORY, str(tmp_path))
    return module


@pytest.fixture
def crew(tmp_path: Path, handlers: Any) -> Iterator[Callable[..., Crew]]:
    """Start pools that are closed when the test ends."""
    crews: list[Crew] = []

    def make(count: int = 1, *, start: bool = True, **options: Any) -> Crew:
        crews.append(Crew(tmp_path, handlers, count, **options))
        if start:
            crews[-1].workers.start()
        return crews[-1]

    yield make
    for one in crews:
        one.close()
