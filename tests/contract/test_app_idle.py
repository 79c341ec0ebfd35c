"""An app that can do nothing but wait costs next to nothing, whatever it waits for."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.inside import inside

if TYPE_CHECKING:
    from collections.abc import Callable

# A slow look comes twice a second; a loop that goes round each millisecond has 500 turns in between.
TURNS_PER_CHECK_MAX = 60
CHECKS = 1
RECORDS = 60
KINDS = ("threads", "asyncio", "batches", "processes")


class Gate:
    """Handlers of all kinds that wait until it is opened, or fail for a long time."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.event = threading.Event()

    def wait(self, _records: Any) -> None:
        """Block, as plain handlers do."""
        if self.fails:
            raise ehkafka.RetryLater(after_s=600.0)
        assert self.event.wait(60.0)

    async def wait_async(self, record: Any) -> None:
        """Wait on a thread of the loop, which stays free."""
        if self.fails:
            self.wait(record)
        await asyncio.to_thread(self.event.wait, 60.0)


def registered(app: Any, kind: str, gate: Gate) -> None:
    """Register a handler of this kind with two workers."""
    if kind == "batches":
        app.batch_handler("t", batch_records_max=1, wait_s_max=0.01, workers=2)(gate.wait)
    elif kind == "processes":
        import contract_handlers  # noqa: PLC0415 - importable by children from the path that the test sets

        app.handler("t", workers=ehkafka.Processes(2))(contract_handlers.handle)
    else:
        app.handler("t", workers=2)(gate.wait_async if kind == "asyncio" else gate.wait)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["parked", "blocked", "more records than workers"])
def test_an_app_that_waits_does_not_spin(
    lab: Any,
    wait_for: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    state: str,
) -> None:
    """Full parked budget, blocked handler, more records than workers: few turns of the poll loop."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("EHKAFKA_CONTRACT_DIRECTORY", str(tmp_path))
    if (kind, state) == ("processes", "parked"):
        pytest.skip("parking is the parent's business, the same for all kinds")
    # Half of them fit: the partition is paused unless the test is about free workers alone.
    limit = 10 * RECORDS if state.startswith("more") else RECORDS // 2
    app = lab.app(
        backlog_records_max=limit, consume_records_max=RECORDS // 6, parked_records_max=RECORDS // 3
    )
    gate = Gate(fails=state == "parked")
    registered(app, kind, gate)
    keys = " ".join(f"k{n % (1 if state == 'blocked' else 20)}" for n in range(RECORDS))
    lab.produce(keys, value=b"wait gate")
    app.start()
    try:
        if limit < RECORDS:
            wait_for(lambda: any(p.paused for p in app.snapshot().partitions))
        else:
            wait_for(lambda: app.snapshot().backlog_records == RECORDS)
        assert turns_per_check(app, wait_for) < TURNS_PER_CHECK_MAX
    finally:
        gate.event.set()
        (tmp_path / "gate").touch()
        app.stop(drain="running")


def turns_per_check(app: Any, wait_for: Callable[..., Any]) -> float:
    """Return how often the poll loop goes round between two slow looks."""
    loop = inside(app).loop
    turns, checks, watch, check = [], [], loop.watch, loop._slow_check
    loop.watch = lambda: (turns.append(1), watch())[1]
    loop._slow_check = lambda: (checks.append(len(turns)), check())[1]
    # The first ones may see the last records arrive.
    wait_for(lambda: len(checks) > CHECKS + 1)
    return (checks[CHECKS + 1] - checks[1]) / CHECKS
