"""What a side's program counts: in works of which not each record counts, and how it ends."""

from __future__ import annotations

import asyncio
import importlib
import signal
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.conftest import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDES = SCRIPTS / "peers" / "sides"
# Of the sides' own environments.
ELSEWHERE = ("uvloop", "aiokafka")
ENDS_AT_ONCE = "import protocol; report = protocol.Report(); report.ready(); report.wait()"


class Counts:
    """What a side reports, at each moment in which a handler sleeps."""

    def __init__(self) -> None:
        self._handled: list[list[int]] = []
        self.ages: list[bytes] = []
        self.seen: list[int] = []

    def cell(self, *, failed: bool = False) -> list[int]:
        """Return a cell as a report does."""
        made = [0]
        if not failed:
            self._handled.append(made)
        return made

    def age(self, value: bytes) -> None:
        """Note that a handler begins."""
        self.ages.append(value)

    def note(self, *_seconds: float) -> None:
        """Note what would be reported now."""
        self.seen.append(sum(cell[0] for cell in self._handled))

    async def anote(self, *_seconds: float) -> None:
        """Note it in a task."""
        self.note()


@pytest.fixture
def side(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function that imports a side's program without what only its environment has."""
    monkeypatch.syspath_prepend(SIDES)
    for name in ELSEWHERE:
        module = ModuleType(name)
        vars(module).update(AIOKafkaConsumer=None, AIOKafkaProducer=None)
        monkeypatch.setitem(sys.modules, name, module)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(SIDES)):
            del sys.modules[name]


def messages(name: str, work: str) -> list[Any]:
    """Return records of which every second one does not count."""
    pairs = [
        (b"hot" if work == "hot" else b"key", b"poison" if work == "poison" else b"1 x"),
        (b"key", b"1 x"),
    ]
    if name == "aio_kafka":
        return [SimpleNamespace(key=key, value=value) for key, value in pairs * 3]
    return [
        SimpleNamespace(key=lambda key=key: key, value=lambda value=value: value) for key, value in pairs * 3
    ]


@pytest.mark.parametrize("work", ["hot", "poison"])
@pytest.mark.parametrize(
    ("name", "handler", "kind"),
    [
        ("hand", "_handler", "threads"),
        ("hand", "_async_handler", "tasks"),
        ("aio_kafka", "_sleeping", "tasks"),
    ],
)
def test_what_does_not_count_never_lowers_the_count(
    side: Any, monkeypatch: pytest.MonkeyPatch, name: str, handler: str, kind: str, work: str
) -> None:
    """A window refuses a count that goes back, and a hot key's record sleeps for long."""
    module, counts = side(name), Counts()
    monkeypatch.setattr(module.time, "sleep", counts.note)
    monkeypatch.setattr(module.asyncio, "sleep", counts.anote)
    options = side("protocol").Options("b", "t", "g", work, workers=1, kind=kind, hot_ms=1.0, retry_s=1.0)
    handle = getattr(module, handler)(options, counts)
    done = module._done_cell(options, counts)

    async def run_all() -> None:
        for message in messages(name, work):
            answer = handle(message)
            if kind == "tasks":
                await answer
            done[0] += 1

    asyncio.run(run_all())
    counts.note()
    assert counts.seen == sorted(counts.seen)
    assert counts.seen[-1] == 3, "of six, every second one counts"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_side_ends_in_order_while_its_standard_input_is_open() -> None:
    """SIGTERM comes before its parent closes it; an interpreter that aborts would look like a failure."""
    command = [sys.executable, "-c", ENDS_AT_ONCE]
    with subprocess.Popen(
        command, cwd=SIDES, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'{"ready": true}\n'
        process.send_signal(signal.SIGTERM)
        assert process.wait(20.0) == 0, process.stderr.read().decode()
