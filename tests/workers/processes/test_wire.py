"""Words between a process and its child are whole, whichever threads send; a permit has one taker."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ehkafka.workers.processes import wire
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Larger than any buffer: it is written in pieces, between which others may come.
LARGE = bytes(3_000_000)


class Parent:
    """Hears words on a thread of its own, which starts when a test tells it."""

    def __init__(self) -> None:
        mine, self.its = socket.socketpair()
        self.child = wire.Wire(self.its)
        self._connection = wire.Wire(mine)
        self._words: list[wire.Word] = []
        self._thread = threading.Thread(target=self._receive, args=(mine,), daemon=True)

    def listen(self) -> None:
        """Begin to hear."""
        self._thread.start()

    def _receive(self, mine: socket.socket) -> None:
        with mine:
            while not self._connection.has_ended:
                self._words += self._connection.receive()

    def kinds(self) -> list[str]:
        """Close the child's end, and return the kinds of what was heard."""
        self.its.close()
        self._thread.join(30.0)
        assert all(body == [LARGE] for kind, *body in self._words if kind == wire.ENDED)
        return [word[0] for word in self._words]


@pytest.fixture
def parent() -> Parent:
    """Return a parent that does not hear yet."""
    return Parent()


def test_a_word_of_another_thread_goes_behind_the_one_that_is_sent(parent: Parent) -> None:
    """That thread asks while a large word is half on its way; it does not wait, and tears nothing."""
    writer = threading.Thread(target=parent.child.send, args=(wire.ENDED, LARGE))
    writer.start()
    wait_until(parent.child._sending.locked, "the word is being sent")
    for _ in range(3):
        parent.child.send(wire.STOP, waits=False)
    parent.listen()
    writer.join(30.0)
    assert parent.kinds() == [wire.ENDED, *[wire.STOP] * 3]


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


def test_a_signals_handler_may_ask_amid_a_word_of_its_own_thread(
    parent: Parent, on_alarm: Callable[[Callable[[], object]], None]
) -> None:
    """It would wait for itself for ever if it waited for its turn."""
    asked = 0

    def ask() -> None:
        nonlocal asked
        if asked < 200:
            asked += 1
            parent.child.send(wire.STOP, waits=False)

    parent.listen()
    on_alarm(ask)
    for _ in range(20):
        parent.child.send(wire.ENDED, LARGE)
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    kinds = parent.kinds()
    assert (kinds.count(wire.ENDED), kinds.count(wire.STOP)) == (20, asked)
    assert asked > 0


def test_words_of_many_threads_are_whole(parent: Parent) -> None:
    """Each arrives once."""
    parent.listen()

    def ask() -> None:
        for _ in range(500):
            parent.child.send(wire.STOP, waits=False)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        parent.child.send(wire.ENDED, LARGE)
    for thread in threads:
        thread.join(30.0)
    kinds = parent.kinds()
    assert (kinds.count(wire.ENDED), kinds.count(wire.STOP)) == (20, 2_000)


def test_what_a_process_had_said_before_its_end_is_received() -> None:
    """Also where it dies with something unread, which resets the connection."""
    mine, its = socket.socketpair()
    with mine, its:
        child, parents = wire.Wire(its), wire.Wire(mine)
        parents.send(wire.BATCH, ())
        child.send(wire.DONE, 1)
        its.close()
        assert parents.receive() == [(wire.DONE, 1)]
        assert (parents.receive(), parents.has_ended) == ([], True)


def test_all_that_is_there_is_received_at_once() -> None:
    """Who has counted permits counts on it: a record before the last that was started has said all."""
    mine, its = socket.socketpair()
    with mine, its:
        child, parents = wire.Wire(its), wire.Wire(mine)
        for place in range(3):
            child.send(wire.ENDED, place, bytes(50_000))
        assert [place for _, place, _ in parents.receive(0.0)] == [0, 1, 2]
        assert parents.receive(0.0) == []


def test_who_waits_for_a_word_is_given_all_of_a_large_one() -> None:
    """A child waits so for its first word, in which the handler may carry a table of megabytes."""
    mine, its = socket.socketpair()
    with mine, its:
        body = marshal.dumps((wire.ENDED, LARGE))
        slow = threading.Thread(target=lambda: [its.sendall(part) for part in pieces(body)])
        slow.start()
        assert wire.Wire(mine).receive() == [(wire.ENDED, LARGE)]
        slow.join()


def pieces(body: bytes) -> Iterator[bytes]:
    """Yield a word with its length in two pieces, the second one later."""
    yield wire.LENGTH.pack(len(body)) + body[:1_000]
    time.sleep(0.05)
    yield body[1_000:]


def test_a_permit_belongs_to_one_side_only() -> None:
    """What the child took cannot be taken back, what came back cannot be taken."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    permits = wire.Permits(*ends)
    permits.offer(5)
    assert [permits.take(), permits.take()] == [1, 1]
    assert permits.left() == 3
    assert permits.take(9) == 3
    assert permits.take() == 0
    assert permits.left() == 0
    for fd in ends:
        os.close(fd)
