"""One producer of outputs for each worker process and endpoint, kept between tasks.

A new one costs a connection, with TLS and a sign-in, and a question for its id: more than a short task. Only
one that has nothing left to send is kept, so that nothing of a task can come behind it. Between two tasks
`ehkafka-outputs-kept` lets its callbacks through, else they would pile up; it closes one that nobody wants
for a minute, and then ends. Never shared over a fork.

Called on a task's thread; a producer belongs to the task's sender in between.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from ehkafka.run.output_producer import output_producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.settings import Settings

SERVE_S: Final = 0.5
"""Between two times at which kept producers let their callbacks through."""
UNUSED_S: Final = 60.0
"""As long as Spark keeps an idle worker."""
# Events between two tasks; the next one reports them.
_UNREPORTED_MAX: Final = 20


class OutputProducer:
    """A producer that goes from task to task, and reports to whoever has it now."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self.endpoint = endpoint
        self.place = _place(endpoint, settings)
        # Set by a task's thread before the producer has another thread, taken back after that has ended.
        self._emit: Callable[[Event], None] | None = None
        self._unreported: deque[Event] = deque(maxlen=_UNREPORTED_MAX)
        self.kept_since_s = 0.0
        # An app's own properties of consumers are the endpoint's here.
        self.producer: OneProducer = output_producer(endpoint, settings, self._report)

    def lend_to(self, emit: Callable[[Event], None]) -> None:
        """Report to a task from now on."""
        self._emit = emit
        while self._unreported:
            emit(self._unreported.popleft())

    def take_back(self) -> None:
        """Keep events until there is a next task."""
        self._emit = None

    def _report(self, event: Event) -> None:
        emit = self._emit
        if emit is None:
            self._unreported.append(event)
        else:
            emit(event)


_Place: TypeAlias = tuple[int, int, frozenset[tuple[str, object]]]
# Under the lock, by process, the endpoint's `id`, which the entry keeps from being another's, and properties.
_KEPT: dict[_Place, OutputProducer] = {}
_LOCK = threading.Lock()
_thread: threading.Thread | None = None


def lend_producer(endpoint: Endpoint, settings: Settings, emit: Callable[[Event], None]) -> OutputProducer:
    """Return this process's producer, open where an earlier task has left it so."""
    with _LOCK:
        found = _KEPT.pop(_place(endpoint, settings), None)
    lent = found or OutputProducer(endpoint, settings)
    lent.lend_to(emit)
    return lent


def keep_or_close(lent: OutputProducer, *, is_spotless: bool) -> None:
    """Keep a producer whose sender has ended; close one that is not `is_spotless`."""
    producer, place = lent.producer, lent.place
    lent.take_back()
    with _LOCK:
        if is_spotless and producer.client is not None and place not in _KEPT:
            lent.kept_since_s = time.monotonic()
            _KEPT[place] = lent
            _be_served()
            return
    producer.give_up(0.0)


def _place(endpoint: Endpoint, settings: Settings) -> _Place:
    return os.getpid(), id(endpoint), frozenset(settings.producer.items())


def _be_served() -> None:
    """Have a thread that serves what is kept. Caller has the lock."""
    global _thread  # noqa: PLW0603 - one of the whole process
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_serve, name="ehkafka-outputs-kept", daemon=True)
        _thread.start()


def _serve() -> None:
    global _thread  # noqa: PLW0603 - see `_be_served`
    is_needed = True
    while is_needed:
        time.sleep(SERVE_S)
        with _LOCK:
            unwanted = [_KEPT.pop(place) for place, kept in list(_KEPT.items()) if not _is_wanted(kept)]
            is_needed = bool(_KEPT)
            if not is_needed:
                _thread = None
        for one in unwanted:
            one.producer.give_up(0.0)


def _is_wanted(kept: OutputProducer) -> bool:
    """Let a producer's callbacks through, and tell whether it may be of use yet."""
    kept.producer.serve(0.0)
    return not kept.producer.is_lost and time.monotonic() < kept.kept_since_s + UNUSED_S
