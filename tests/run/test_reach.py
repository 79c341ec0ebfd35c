"""Asking in a way that lets a signal through."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

from ehkafka.run.reach import interruptible

TIMEOUT_S = 20.0


def test_the_answer_and_the_error_come_through() -> None:
    """The caller notices nothing of the thread, and the client is kept."""
    given_up: list[Any] = []
    assert interruptible(lambda: 42, lambda: given_up.append(1)) == 42

    def fail() -> int:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        interruptible(fail, lambda: given_up.append(1))
    assert given_up == []


def test_a_signal_ends_the_wait_and_the_client_is_given_up_when_no_request_uses_it() -> None:
    """Not before the request has returned: two threads in one client end the process."""
    asked, answer, given_up = threading.Event(), threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def ask() -> None:
        asked.set()
        assert answer.wait(TIMEOUT_S)

    def interrupt() -> None:
        assert asked.wait(TIMEOUT_S)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(ask, given_up.set)
    assert not given_up.is_set()
    answer.set()
    assert given_up.wait(TIMEOUT_S)


def test_another_thread_than_the_main_one_asks_by_itself() -> None:
    """It gets no signals."""
    names: list[str] = []

    def ask() -> None:
        names.append(threading.current_thread().name)

    thread = threading.Thread(target=interruptible, args=(ask, lambda: None), name="mine")
    thread.start()
    thread.join(TIMEOUT_S)
    assert names == ["mine"]
