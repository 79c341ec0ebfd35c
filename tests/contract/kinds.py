"""Every kind of worker with one set of handlers, which do what their records say and share files alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import ehkafka
from tests.contract import contract_handlers
from tests.contract.in_loop import InLoop

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """How a handler of this kind is registered."""

    # The end of its handlers' names.
    suffix: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    in_processes: bool = False
    is_class: bool = False
    # Whether coroutines run on a loop that enters the app.
    is_on_callers_loop: bool = False


KINDS = {
    "threads": Kind(),
    "tasks": Kind("_async"),
    "callers_loop": Kind("_async", is_on_callers_loop=True),
    "batches": Kind("_batch", {"batch_records_max": 1, "wait_s_max": 0.0}),
    "processes": Kind(in_processes=True),
    # Other ways to a handler, by threads.
    "class": Kind(is_class=True),
    "raw": Kind(options={"raw": True}),
}
WORKERS = ("threads", "tasks", "callers_loop", "batches", "processes")
# Each process costs a quarter of a second of CPU time to start.
WORKERS_COUNT, PROCESSES_COUNT = 4, 2


class Line(NamedTuple):
    """What a handler wrote down."""

    word: str
    partition: int
    offset: int
    key: str
    attempt: int


class Stage:
    """One kind's apps and what their handlers wrote down."""

    def __init__(self, lab: Any, kind: str, directory: Path) -> None:
        self.lab = lab
        self.kind = KINDS[kind]
        self.name = kind
        self.directory = directory
        self.handlers: Any = contract_handlers
        self.entered: list[InLoop] = []

    def app(self, *topics: str, workers: int | None = None, handler: str = "handle", **options: Any) -> Any:
        """Make an app with this kind's handler."""
        kind = self.kind
        count = workers or (PROCESSES_COUNT if kind.in_processes else WORKERS_COUNT)
        own = {
            **kind.options,
            "workers": ehkafka.Processes(count) if kind.in_processes else count,
            **options,
        }
        function = getattr(self.handlers, handler + kind.suffix)
        if kind.is_class:
            function = type(
                "Handler", (), {"process": lambda _self, record, process=function: process(record)}
            )
        if not kind.is_on_callers_loop:
            return self.lab.app(function, *topics, **own)
        self.entered.append(InLoop(self.lab.app(function, *topics, loop="caller", **own)))
        return self.entered[-1]

    def start(self, *topics: str, **options: Any) -> Any:
        """Make one and start it."""
        app = self.app(*topics, **options)
        app.start()
        return app

    def produce(self, *records: tuple[str, str], topic: str = "t", partition: int = 0) -> None:
        """Produce records of a key and what its handler is to do."""
        batch = [(key.encode(), reported.encode()) for key, reported in records]
        self.lab.broker.produce(topic, batch, partition=partition)

    def open(self, gate: str = "gate") -> None:
        """Let go on what waits for this gate."""
        (self.directory / gate).touch()

    def lines(self, word: str | None = None, key: str | None = None) -> list[Line]:
        """What was written down so far, or what of it has this word, or this key."""
        path = self.directory / "lines"
        text = path.read_text() if path.exists() else ""
        found = [line.split() for line in text.splitlines()]
        lines = [Line(w, int(p), int(o), key, int(a)) for w, _, p, o, key, a in found]
        return [line for line in lines if word in (None, line.word) and key in (None, line.key)]

    def offsets(self, word: str, key: str | None = None) -> list[int]:
        """Offsets of the lines with this word."""
        return [line.offset for line in self.lines(word, key)]

    def running_at_each(self) -> list[int]:
        """How many calls ran after each line."""
        now, found = 0, []
        for line in self.lines():
            now += 1 if line.word == "start" else -1
            found.append(now)
        return found

    @property
    def running(self) -> int:
        """How many calls have started and not ended."""
        return (self.running_at_each() or [0])[-1]

    @property
    def running_max(self) -> int:
        """How many ran at once at most."""
        return max(self.running_at_each(), default=0)

    def close(self) -> None:
        """Let all calls end, and the loops that entered apps."""
        for gate in ("gate", "never"):
            self.open(gate)
        for one in self.entered:
            one.close()
