"""A child's way back: whole frames, whoever asks for one, and whenever."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from ehkafka.workers.processes import pipe
from ehkafka.workers.processes.answers import Answers
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Larger than any pipe: it is written in pieces, between which others may come.
LARGE = bytes(3_000_000)


class Parent:
    """Reads frames on a thread of its own, which starts when a test says so."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self.frames: list[pipe.Frame] = []
        self._thread = threading.Thread(target=self._read, daemon=True)

    def listen(self) -> None:
        """Begin to read."""
        self._thread.start()

    def _read(self) -> None:
        while (frame := pipe.read_frame(self.read_fd)) is not None:
            self.frames.append(frame)

    def kinds(self) -> bytes:
        """Close the way, and return what kinds of frames came."""
        os.close(self.write_fd)
        self._thread.join(30.0)
        os.close(self.read_fd)
        assert all(frame.body == LARGE for frame in self.frames if frame.kind == pipe.SENT)
        return b"".join(frame.kind for frame in self.frames)


@pytest.fixture
def parent() -> Parent:
    """Return a parent that does not read yet."""
    return Parent()


def test_a_frame_that_somebody_asks_for_goes_behind_the_one_that_is_written(parent: Parent) -> None:
    """Another thread asks while a large frame is half in the pipe; it does not wait, and tears nothing."""
    answers = Answers(parent.write_fd)
    writer = threading.Thread(target=answers.send, args=(pipe.SENT, LARGE))
    writer.start()
    wait_until(answers._lock.locked, "the frame is being written")
    for _ in range(3):
        answers.ask(pipe.STOP, b"")
    parent.listen()
    writer.join(30.0)
    assert parent.kinds() == pipe.SENT + pipe.STOP * 3


@pytest.fixture
def on_alarm() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Have a function called by a signal's handler, every now and then."""
    before = signal.getsignal(signal.SIGALRM)

    def start(function: Callable[[], object]) -> None:
        signal.signal(signal.SIGALRM, lambda _number, _frame: function())
        signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)

    yield start
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, before)


def test_a_signals_handler_may_ask_amid_a_frame_of_its_own_thread(
    parent: Parent, on_alarm: Callable[[Callable[[], object]], None]
) -> None:
    """It would wait for itself for ever if it waited for its turn."""
    answers = Answers(parent.write_fd)
    asked = 0

    def ask() -> None:
        nonlocal asked
        if asked < 200:
            asked += 1
            answers.ask(pipe.STOP, b"")

    parent.listen()
    on_alarm(ask)
    for _ in range(20):
        answers.send(pipe.SENT, LARGE)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    kinds = parent.kinds()
    assert (kinds.count(pipe.SENT), kinds.count(pipe.STOP)) == (20, asked)
    assert asked > 0


def test_frames_of_many_threads_are_whole(parent: Parent) -> None:
    """Whatever they ask for arrives once."""
    answers = Answers(parent.write_fd)
    parent.listen()
    threads = [
        threading.Thread(target=lambda: [answers.ask(pipe.STOP, b"") for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for _ in range(20):
        answers.send(pipe.SENT, LARGE)
    for thread in threads:
        thread.join(30.0)
    kinds = parent.kinds()
    assert (kinds.count(pipe.SENT), kinds.count(pipe.STOP)) == (20, 2_000)
