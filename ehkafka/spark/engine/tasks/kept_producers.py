"""One producer of outputs for each worker process and endpoint, kept between tasks.

A new one costs a connection, with TLS and a sign-in, and a question for its id: more than a short task. Only
one that has nothing left to send is kept, so that nothing of a task can come behind it. Between two tasks
`ehkafka-outputs-kept` lets its callbacks through, else they would pile up; it closes one that nobody wants
for a minute, and then ends. Never shared over a fork.

A task's thread lends and gives back; a producer belongs to the task's sender in between.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ehkafka.run.output_producer import output_producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.recovery.letters.producer import LetterProducer

SERVE_S: Final = 0.5
"""Between two times at which kept producers let their callbacks through."""
UNUSED_S: Final = 60.0
"""As long as Spark keeps an idle worker."""
# What is heard between two tasks; the next one tells it.
_UNHEARD_MAX: Final = 20


class OutputProducer:
    """A producer that goes from task to task, and tells whoever has it now what it hears."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        # Set by a task's thread before the producer has another thread, taken back after that has ended.
        self._emit: Callable[[Event], None] | None = None
        self._unheard: deque[Event] = deque(maxlen=_UNHEARD_MAX)
        self.kept_since_s = 0.0
        # An app's own properties are the endpoint's here.
        self.producer: LetterProducer = output_producer(endpoint, {}, self._hear)

    def lend_to(self, emit: Callable[[Event], None]) -> None:
        """Let a task hear of it from now on."""
        self._emit = emit
        while self._unheard:
            emit(self._unheard.popleft())

    def take_back(self) -> None:
        """Let nobody hear of it until the next task does."""
        self._emit = None

    def _hear(self, event: Event) -> None:
        emit = self._emit
        if emit is None:
            self._unheard.append(event)
        else:
            emit(event)


# Under the lock, by process and the endpoint's `id`, which the entry keeps from being another's.
_KEPT: dict[tuple[int, int], OutputProducer] = {}
_LOCK = threading.Lock()
_thread: threading.Thread | None = None


def lend_producer(endpoint: Endpoint, emit: Callable[[Event], None]) -> OutputProducer:
    """Return this process's producer, open where an earlier task has left it so."""
    with _LOCK:
        found = _KEPT.pop(_place(endpoint), None)
    lent = found or OutputProducer(endpoint)
    lent.lend_to(emit)
    return lent


def give_back(lent: OutputProducer, *, is_spotless: bool) -> None:
    """Keep a producer whose sender has ended; close one that is not `is_spotless`."""
    producer, place = lent.producer, _place(lent.endpoint)
    lent.take_back()
    with _LOCK:
        if is_spotless and producer.client is not None and place not in _KEPT:
            lent.kept_since_s = time.monotonic()
            _KEPT[place] = lent
            _be_served()
            return
    producer.give_up(0.0)


def close_kept() -> None:
    """Close what is kept, and end the thread; for tests."""
    with _LOCK:
        kept = [_KEPT.pop(place) for place in list(_KEPT)]
        thread = _thread
    for one in kept:
        one.producer.give_up(0.0)
    if thread is not None:
        thread.join()


def _place(endpoint: Endpoint) -> tuple[int, int]:
    return os.getpid(), id(endpoint)


def _be_served() -> None:
    """Have a thread that serves what is kept. Caller has the lock."""
    global _thread  # noqa: PLW0603 - one of the whole process
    if _thread is None or not _thread.is_alive():
        _thread = threading.Thread(target=_serve, name="ehkafka-outputs-kept", daemon=True)
        _thread.start()


def _serve() -> None:
    global _thread  # noqa: PLW0603 - see `_be_served`
    while True:
        time.sleep(SERVE_S)
        with _LOCK:
            for place, kept in list(_KEPT.items()):
                kept.producer.serve(0.0)
                if kept.producer.is_lost or time.monotonic() > kept.kept_since_s + UNUSED_S:
                    del _KEPT[place]
                    kept.producer.give_up(0.0)
            if not _KEPT:
                _thread = None
                return
