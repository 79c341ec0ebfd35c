"""`App.stop()` from code that the app itself runs: it asks for the stop and returns at once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka

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
        if not self._lock.acquire(blocking=False):
            return
        runtime = self.app.current_run
        self.app.stop(timeout_s=5.0)
        self.waited.append(runtime.ending.is_done)


def in_a_handler(app: Any, inside: Inside) -> None:
    """A function."""
    app.handler("t")(inside)


def in_a_coroutine(app: Any, inside: Inside) -> None:
    """A coroutine, on its loop."""

    @app.handler("t")
    async def handle(record: Any) -> None:
        inside(record)


def in_a_thread_of_a_coroutine(app: Any, inside: Inside) -> None:
    """A blocking call of a coroutine."""

    @app.handler("t")
    async def handle(record: Any) -> None:
        await asyncio.to_thread(inside, record)


def in_a_batch(app: Any, inside: Inside) -> None:
    """A batch handler."""
    app.batch_handler("t", batch_records_max=2)(inside)


def in_a_batch_of_a_coroutine(app: Any, inside: Inside) -> None:
    """A batch handler's coroutine."""

    @app.batch_handler("t", batch_records_max=2)
    async def handle(batch: ehkafka.Batch) -> None:
        inside(batch)


def in_a_thread_of_a_batch(app: Any, inside: Inside) -> None:
    """A blocking call of a batch handler's coroutine."""

    @app.batch_handler("t", batch_records_max=2)
    async def handle(batch: ehkafka.Batch) -> None:
        await asyncio.to_thread(inside, batch)


def fails(app: Any, **options: Any) -> None:
    """Register a handler that never has luck."""

    @app.handler("t", **options)
    def handle(_record: Any) -> None:
        raise ValueError("no luck")


def in_a_function_for_dead_letters(app: Any, inside: Inside) -> None:
    """The function that takes the letters."""
    fails(app, on_failure=ehkafka.DeadLetter(inside))


def in_a_retry_function(app: Any, inside: Inside) -> None:
    """What says when a record is tried again."""

    def delay_s(*_arguments: Any) -> float:
        inside()
        return 60.0

    fails(app, retry=delay_s, on_failure=ehkafka.Hold())


def in_on_error(app: Any, inside: Inside) -> None:
    """What hears of errors."""
    fails(app, on_failure=ehkafka.Skip())
    app.on_error(inside)


def in_middleware(app: Any, inside: Inside) -> None:
    """Around the handler."""

    def middleware(record: Any, call_next: Callable[[Any], Any]) -> Any:
        inside()
        return call_next(record)

    app.use(middleware)
    app.handler("t")(lambda _record: None)


def in_order_by(app: Any, inside: Inside) -> None:
    """The poll thread calls it."""

    def order_by(record: Any) -> Any:
        inside()
        return record.key()

    app.handler("t", order_by=order_by)(lambda _record: None)


def in_on_assigned(app: Any, inside: Inside) -> None:
    """A partition hook."""
    app.handler("t")(lambda _record: None)
    app.on_assigned(inside)


def in_a_class(app: Any, inside: Inside) -> None:
    """A class handler's `open`."""

    @app.handler("t")
    class Handler:
        def open(self, _partition: Any) -> None:
            inside()

        def process(self, record: Any) -> None:
            pass


def in_an_event_hook(app: Any, inside: Inside) -> None:
    """The telemetry thread calls it."""

    class Hook:
        def on_event(self, event: ehkafka.events.Event) -> None:
            if isinstance(event, ehkafka.events.PartitionAssigned):
                inside()

    app.add_hook(Hook())
    app.handler("t")(lambda _record: None)


def in_a_worker_set_up(app: Any, inside: Inside) -> None:
    """While the app starts."""
    app.on_worker_start(inside)
    app.handler("t")(lambda _record: None)


def in_on_start(app: Any, inside: Inside) -> None:
    """On the thread that starts the app."""
    app.on_start(inside)
    app.handler("t")(lambda _record: None)


@pytest.mark.parametrize(
    "place",
    [
        in_a_handler,
        in_a_coroutine,
        in_a_thread_of_a_coroutine,
        in_a_batch,
        in_a_batch_of_a_coroutine,
        in_a_thread_of_a_batch,
        in_a_function_for_dead_letters,
        in_a_retry_function,
        in_on_error,
        in_middleware,
        in_order_by,
        in_on_assigned,
        in_a_class,
        in_an_event_hook,
        in_a_worker_set_up,
        in_on_start,
    ],
)
def test_a_stop_from_code_that_the_app_runs_returns_at_once(
    lab: Any, wait_for: Any, place: Callable[[Any, Inside], None]
) -> None:
    """It would wait for itself; the stop goes on and the app ends in good order."""
    lab.produce("a")
    inside = Inside()
    inside.app = app = lab.app()
    place(app, inside)
    app.start()
    wait_for(lambda: inside.waited)
    assert inside.waited == [False]
    assert app.wait(10.0)
    app.stop()
    assert app.state == "stopped"


def test_a_stop_from_a_start_callable_returns_at_once(lab: Any, wait_for: Any) -> None:
    """The poll thread calls it, in the middle of an assign."""
    inside = Inside()

    def start(*_where: Any) -> str:
        inside()
        return "earliest"

    inside.app = app = lab.app(lab.recorder(), start=start)
    app.start()
    wait_for(lambda: inside.waited)
    assert inside.waited == [False]
    assert app.wait(10.0)
    app.stop()


def test_a_stop_from_elsewhere_waits_for_the_end(lab: Any) -> None:
    """Any thread that is none of the app's."""
    inside = Inside()
    inside.app = app = lab.app(lab.recorder())
    app.start()
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert inside.waited == [True]


def test_a_stop_from_a_worker_process_stops_the_app_that_runs_it(lab: Any, program: Any) -> None:
    """The child has a copy of the app that never started: it asks its parent and goes on."""
    lab.produce("a b")
    started = program(
        """
        import pathlib, tempfile
        folder = tempfile.mkdtemp()
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
        run()
        """
    )
    assert started.wait() == 0
    assert started.lines == ["stopping a worker process called stop() 7.0", "END"]
    assert (lab.committed() or 0) >= 1
