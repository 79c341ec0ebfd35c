"""`App.stop()` from code that the app itself runs: it asks for the stop and returns at once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


class Inside:
    """Calls `stop` once, from wherever it is called itself, and notes whether the run had ended by then."""

    def __init__(self) -> None:
        self.app: Any = None
        self.waited: list[bool] = []
        self._lock = threading.Lock()

    def __call__(self, *_arguments: Any) -> None:
        """Ask the app to stop."""
        if self._lock.acquire(blocking=False):
            self.app.stop(timeout_s=5.0)
            self.waited.append(self.app.state == "stopped")

    async def awaited(self, *_arguments: Any) -> None:
        """Do it on a loop."""
        self()

    async def in_thread(self, *_arguments: Any) -> None:
        """Do it in a blocking call of a coroutine."""
        await asyncio.to_thread(self)

    def middleware(self, record: Any, call_next: Callable[[Any], Any]) -> Any:
        """Do it around the handler."""
        self()
        return call_next(record)

    def order_by(self, record: Any) -> Any:
        """Do it on the poll thread."""
        self()
        return record.key()

    def delay_s(self, *_arguments: Any) -> float:
        """Do it where it is decided when a record is tried again."""
        self()
        return 60.0

    def start(self, *_where: Any) -> str:
        """Do it on the poll thread, in the middle of an assign."""
        self()
        return "earliest"

    def on_event(self, event: ehkafka.events.Event) -> None:
        """Do it on the telemetry thread."""
        if isinstance(event, ehkafka.events.PartitionAssigned):
            self()

    def opening(self) -> type:
        """Return a class handler that does it when a partition opens."""
        inside = self

        class Handler:
            def open(self, _partition: Any) -> None:
                inside()

            def process(self, record: Any) -> None:
                pass

        return Handler


def nothing(_record: Any) -> None:
    """Handle a record."""


def fails(_record: Any) -> None:
    """Have no luck."""
    raise ValueError("no luck")


# Each makes the app's handler, and what else is needed.
PLACES: dict[str, Callable[[Any, Inside], object]] = {
    "a handler": lambda app, inside: app.handler("t")(inside),
    "a coroutine": lambda app, inside: app.handler("t")(inside.awaited),
    "a thread of a coroutine": lambda app, inside: app.handler("t")(inside.in_thread),
    "a batch": lambda app, inside: app.batch_handler("t", batch_records_max=2)(inside),
    "a batch's coroutine": lambda app, inside: app.batch_handler("t", batch_records_max=2)(inside.awaited),
    "its thread": lambda app, inside: app.batch_handler("t", batch_records_max=2)(inside.in_thread),
    "a class": lambda app, inside: app.handler("t")(inside.opening()),
    "a letter function": lambda app, inside: app.handler("t", on_failure=ehkafka.DeadLetter(inside))(fails),
    "a retry function": lambda app, inside: app.handler("t", retry=inside.delay_s)(fails),
    "on_error": lambda app, inside: (
        app.handler("t", on_failure=ehkafka.Skip())(fails),
        app.on_error(inside),
    ),
    "middleware": lambda app, inside: (app.use(inside.middleware), app.handler("t")(nothing)),
    "order_by": lambda app, inside: app.handler("t", order_by=inside.order_by)(nothing),
    "a start callable": lambda app, inside: app.handler("t", start=inside.start)(nothing),
    "on_assigned": lambda app, inside: (app.on_assigned(inside), app.handler("t")(nothing)),
    "an event hook": lambda app, inside: (app.add_hook(inside), app.handler("t")(nothing)),
    "a worker's set-up": lambda app, inside: (app.on_worker_start(inside), app.handler("t")(nothing)),
    "on_start": lambda app, inside: (app.on_start(inside), app.handler("t")(nothing)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_stop_from_code_that_the_app_runs_returns_at_once(lab: Any, place: str) -> None:
    """It would wait for itself; the stop goes on and the app ends in good order."""
    lab.produce("a")
    inside = Inside()
    inside.app = app = lab.app()
    PLACES[place](app, inside)
    app.start()
    wait_until(lambda: inside.waited)
    assert inside.waited == [False]
    assert app.wait(10.0)
    app.stop()
    assert app.state == "stopped"


def test_a_stop_from_elsewhere_waits_for_the_end(lab: Any) -> None:
    """Any thread that is none of the app's, also of another app's handler."""
    lab.judged = False  # two groups
    inside = Inside()
    inside.app = lab.start(lab.recorder(), group="other")
    lab.start(inside)
    lab.produce("a")
    wait_until(lambda: inside.waited)
    assert inside.waited == [True]


def test_a_stop_from_a_worker_process_stops_the_app_that_runs_it(lab: Any, program: Any) -> None:
    """The child has a copy of the app that never started: it asks its parent and goes on."""
    lab.produce("a b")
    started = program(
        """
        import pathlib, tempfile
        folder = os.environ.setdefault("ITS_FOLDER", tempfile.mkdtemp())
        pathlib.Path(folder, "its_handler.py").write_text(
            "import ehkafka\\n"
            "app = ehkafka.App(group='g', endpoint=ehkafka.Endpoint.kafka('a:1'), start='earliest')\\n"
            "def handle(record):\\n"
            "    app.stop(timeout_s=7.0)\\n"
        )
        sys.path.insert(0, folder)
        from its_handler import handle
        class Noted:
            def on_event(self, event):
                if isinstance(event, ehkafka.events.AppStopping):
                    say("stopping", event.reason, event.deadline_s)
        app.add_hook(Noted())
        app.handler("t", workers=ehkafka.Processes(1))(handle)
        if __name__ == "__main__":
            run()
        """
    )
    assert started.wait() == 0
    assert started.lines == ["stopping a worker process called stop() 7.0", "END"]
    assert (lab.committed() or 0) >= 1
