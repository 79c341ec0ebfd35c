"""Apps with process workers: what is refused, programs as users write them, and kills under load."""

from __future__ import annotations

import importlib
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ehkafka
from ehkafka.events import WorkerProcessDied
from tests.kit.inside import inside
from tests.kit.waiting import wait_until

CODE = Path(__file__).parents[1] / "workers" / "processes" / "process_code"
# More by hand: each costs an interpreter's start.
KILLS = int(os.environ.get("EHKAFKA_PROCESS_KILLS", "8"))


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the handlers as a child will."""
    monkeypatch.syspath_prepend(str(CODE))
    module = importlib.import_module("process_handlers")
    monkeypatch.setenv(module.DIRECTORY, str(tmp_path))
    return module


async def awaited(record: Any) -> None:
    """Handle nothing."""


class Kept:
    """A class handler."""

    def process(self, record: Any) -> None:
        """Handle nothing."""


@pytest.mark.parametrize(
    ("handler", "options", "words"),
    [
        (awaited, {}, "needs an event loop"),
        (Kept, {}, "a class handler has an instance for each partition"),
        (print, {"raw": True}, "confluent's Message, which cannot be pickled"),
        (lambda record: record, {}, "a lambda.*top level of a module"),
    ],
)
def test_what_processes_cannot_do_is_refused_at_registration(
    lab: Any, handler: Any, options: dict[str, Any], words: str
) -> None:
    """The message has the setting, the reason and the way out."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=f"workers=Processes.*{words}.*workers=16"):
        lab.app(handler, workers=ehkafka.Processes(1), **options)


def test_middleware_that_cannot_be_pickled_is_refused_by_the_start(lab: Any, handlers: Any) -> None:
    """It runs in the child; nothing was started when it is refused."""
    app = lab.app(handlers.handle, workers=ehkafka.Processes(1))
    app.use(lambda record, call_next: call_next(record))

    with pytest.raises(
        ehkafka.errors.ConfigurationError, match=r"middleware 1: .*cannot be pickled for processes"
    ):
        app.start()


def test_kills_under_load_lose_nothing_and_keep_every_order(lab: Any, handlers: Any, events: Any) -> None:
    """Random SIGKILLs; the checker finds nothing lost, nothing premature, no order broken."""
    rng = random.Random(7)
    app = lab.start(
        handlers.handle,
        "t4",
        workers=ehkafka.Processes(2),
        retry=ehkafka.Retry(attempts=50, first_s=0.01, max_s=0.05),
    )
    [route] = inside(app).routes
    killed = 0
    produced = 0
    while killed < KILLS:
        # Before records are produced: while the next process starts, this loop would produce thousands.
        wait_until(lambda: route.workers.pids)
        for partition in range(4):
            batch = [(b"k%d" % rng.randrange(40), b"x" if rng.random() < 0.9 else b"sleep 0.003")]
            lab.broker.produce("t4", batch * 100, partition=partition)
            produced += 100
        time.sleep(rng.random() * 0.1)
        if pids := route.workers.pids:
            with suppress(ProcessLookupError):  # the one before was buried in between
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed += 1
    wait_until(lambda: app.snapshot().finished_records == produced, timeout_s=60.0)
    app.stop()

    deaths = events.of(WorkerProcessDied)
    assert len(deaths) >= KILLS // 2  # some hit a child that was dying already
    assert {death.how for death in deaths} == {"signal SIGKILL"}
    verdict = lab.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.finished == produced
    assert [lab.committed(partition, topic="t4") for partition in range(4)] == [produced // 4] * 4


PROGRAM = """
@app.handler("t", workers=ehkafka.Processes(2))
def handle(record):
    # One write each: print makes several, and the other child's may come between.
    os.write(1, f"start {record.offset()}\\n".encode())
    time.sleep(0.3)
    os.write(1, f"end {record.offset()} {__name__}\\n".encode())
"""


def test_a_terminals_ctrl_c_lets_the_children_finish(lab: Any, program: Any) -> None:
    """SIGINT to the whole group, as a terminal sends it: what runs ends, is committed, exit code 0."""
    lab.produce("a b c d")
    running = program(PROGRAM + 'if __name__ == "__main__":\n    app.run()\n')
    wait_until(lambda: running.printed("start 1"))
    os.killpg(running.process.pid, signal.SIGINT)
    assert running.wait(20.0) == 0
    assert running.process.stderr.read() == ""
    started = {line.split()[1] for line in running.lines if line.startswith("start")}
    ended = {line.split()[1] for line in running.lines if line.startswith("end")}
    assert started == ended
    assert lab.committed() == len(ended) >= 2


def test_a_script_without_a_guard_hears_so(program: Any) -> None:
    """Each child would start the app again when it imports the script: refused, with the line to write."""
    running = program(PROGRAM + "run()\n")
    assert running.wait(20.0) == 2
    assert running.printed('if __name__ == "__main__": app.run()')
