"""How many workers handlers have while the app runs: by `App.resize`, or as `workers="auto"` finds out.

Both change a pool by its `resize`. `Runtime` has one `Resizing`; a number asked for comes on the caller's
thread, one found out on `ehkafka-auto`, which is there if some handler wants it. Never the poll thread: a
new worker runs the user's set-up first.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError
from ehkafka.events import HandlerResized, UserCodeFailed
from ehkafka.workers.auto_size import AutoSize, LoadSample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.events import Event
    from ehkafka.intake.route import Route

# Between two looks at what an automatic number brings.
CHECK_S: Final = 0.25


def named_route(routes: Sequence[Route], handler: str, asked: str) -> Route:
    """Return the one route whose handler has that name. Raises `ConfigurationError`, which says who asked."""
    found = [route for route in routes if route.handler == handler]
    if len(found) == 1:
        return found[0]
    known = ", ".join(repr(route.handler) for route in routes)
    if found:
        raise ConfigurationError(
            f"{asked}: {len(found)} handlers are named {handler!r}; rename the function of one handler."
        )
    raise ConfigurationError(f"{asked}: the app has no handler {handler!r}; its handlers are {known}.")


class Resizing:
    """Changes the number of workers of one run's handlers."""

    def __init__(self, routes: Sequence[Route], emit: Callable[[Event], None]) -> None:
        self._routes = routes
        self._emit = emit
        # A pool is resized by one caller at a time. Guards `_auto`, too.
        self._lock = threading.Lock()
        # What finds the numbers, and which of them was reported last. A handler
        # that `App.resize` has changed is not among them any more.
        self._auto: dict[str, tuple[Route, AutoSize, int]] = {}
        self._stopped = threading.Event()

    def resize(self, handler: str, workers: int) -> None:
        """Give a handler so many workers until the stop.

        Raises `ConfigurationError`, or what the set-up of a new worker raises: then all is as before.
        """
        route = named_route(self._routes, handler, f"resize({handler!r})")
        pool = route.workers
        if type(workers) is not int or not 1 <= workers <= pool.size_max:
            raise ConfigurationError(
                f"resize({handler!r}, workers={workers!r}): give a number from 1 to {pool.size_max}."
            )
        with self._lock:
            before = pool.size
            pool.resize(workers)
            self._auto.pop(route.name, None)
        self._emit(HandlerResized(handler, before, workers))

    def start(self) -> None:
        """Begin to find the numbers that are to be found; the workers have started."""
        wanting = [(route, route.auto) for route in self._routes if route.auto is not None]
        if not wanting:
            return
        self._auto = {route.name: (route, AutoSize(bounds), bounds.first) for route, bounds in wanting}
        threading.Thread(target=self._main, name="ehkafka-auto", daemon=True).start()

    def stop(self) -> None:
        """Change nothing of itself any more. Returns at once."""
        self._stopped.set()

    def _main(self) -> None:
        while not self._stopped.wait(CHECK_S):
            # The process's: other handlers compute on the same cores.
            at_s, cpu_s = time.monotonic(), time.process_time()
            for name in tuple(self._auto):
                with self._lock:
                    self._check(name, at_s, cpu_s)

    def _check(self, name: str, at_s: float, cpu_s: float) -> None:
        if name not in self._auto or self._stopped.is_set():
            return
        route, auto, reported = self._auto[name]
        pool, hub = route.workers, route.hub
        seen = LoadSample(at_s, hub.count_finished(), cpu_s, hub.busy, is_waited_for=hub.waiting()[0] > 0)
        if (size := auto.next_size(seen)) != pool.size:
            try:
                pool.resize(size)
            except BaseException as error:  # the user's set-up: it would fail again at every try
                del self._auto[name]
                self._emit(UserCodeFailed.of("on_worker_start", error))
                return
        if size != reported and not auto.is_trying:
            self._auto[name] = (route, auto, size)
            self._emit(HandlerResized(route.handler, reported, size, is_auto=True))
