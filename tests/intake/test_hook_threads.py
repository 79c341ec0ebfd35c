"""The hook threads: one call after the other while they return, and never one partition's for another's."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import UserCodeHangs
from ehkafka.intake import hook_threads
from ehkafka.intake.hook_threads import HookThreads
from ehkafka.testing.clock import VirtualClock
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Desk:
    """Hook threads under a clock of the test's, and calls that wait for it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.said: list[str] = []
        self.threads_of: dict[str, str] = {}
        self.raised: list[tuple[str, BaseException]] = []
        self.events = Events()
        self.gates: dict[str, threading.Event] = {}
        self.threads = HookThreads(
            lambda name, error: self.raised.append((name, error)), self.events.append, self.clock.now_s
        )

    def submit(self, name: str, order: str | None = None, *, hangs: bool = False) -> Any:
        """Submit a call, which may wait for its gate."""
        if hangs:
            self.gates[name] = threading.Event()

        def call() -> None:
            self.threads_of[name] = threading.current_thread().name
            if hangs:
                self.gates[name].wait(20.0)
            self.said.append(name)

        return self.threads.submit(f"call {name}", {name: call}, order)

    def wait_for(self, true: Callable[[], Any]) -> None:
        """Poll with a deadline."""
        wait_until(true)


@pytest.fixture
def desk() -> Iterator[Desk]:
    """Return hook threads that leave at the end."""
    desk = Desk()
    yield desk
    for gate in desk.gates.values():
        gate.set()
    desk.wait_for(lambda: desk.threads.close(0.0) == [])
    desk.wait_for(lambda: not desk.threads._threads)


def test_calls_that_return_run_one_after_the_other_on_one_thread(desk: Desk) -> None:
    """Hooks of a program that never thought of threads are not called side by side."""
    for number in range(20):
        desk.submit(str(number), f"t[{number % 3}]")
    desk.wait_for(lambda: len(desk.said) == 20)
    assert desk.said == [str(number) for number in range(20)]
    assert set(desk.threads_of.values()) == {"ehkafka-hooks"}


def test_a_call_that_hangs_holds_up_its_own_order_alone(desk: Desk) -> None:
    """Others wait for a second at most, and are then run by another thread; its own come after it."""
    desk.submit("open 0", "t[0]", hangs=True)
    desk.submit("close 0", "t[0]")
    desk.submit("open 1", "t[1]")
    desk.submit("deadline")
    desk.wait_for(lambda: "open 0" in desk.threads_of)
    desk.threads.look()
    assert desk.said == []
    desk.clock.advance(hook_threads.PATIENCE_S)
    desk.threads.look()
    desk.wait_for(lambda: desk.said == ["open 1", "deadline"])
    desk.submit("later")  # nobody needs to look again
    desk.wait_for(lambda: desk.said == ["open 1", "deadline", "later"])
    desk.gates["open 0"].set()
    desk.wait_for(lambda: desk.said[3:] == ["open 0", "close 0"])
    desk.wait_for(lambda: len(desk.threads._threads) == 1)


def test_a_call_that_hangs_is_named_until_it_returns(desk: Desk) -> None:
    """Once in the log; in the health for as long as it lasts."""
    call = desk.submit("open", "t[0]", hangs=True)
    behind = desk.submit("close", "t[0]")
    other = desk.submit("else", "t[1]")
    desk.wait_for(lambda: "open" in desk.threads_of)
    desk.clock.advance(hook_threads.HANGS_S - 0.1)
    desk.threads.look()
    assert desk.threads.trouble is None
    assert not desk.threads.is_held_up(behind)
    desk.clock.advance(2.1)
    for _ in range(3):
        desk.threads.look()
    assert desk.events == [UserCodeHangs("open (call open)", 5.0)]
    assert desk.threads.trouble is not None
    assert desk.threads.trouble.startswith("open (call open) has not returned for 7 s")
    assert [desk.threads.is_held_up(each) for each in (call, behind, other)] == [False, True, False]
    desk.gates["open"].set()
    assert call.done.wait(10.0)
    assert behind.done.wait(10.0)
    assert desk.threads.trouble is None


def test_threads_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many as that in calls that hang, the others wait, and all of them run in the end."""
    monkeypatch.setattr(hook_threads, "THREADS_MAX", 3)
    for number in range(6):
        desk.submit(str(number), f"t[{number}]", hangs=True)
    for running in (1, 2, 3, 3):
        desk.wait_for(lambda running=running: len(desk.threads_of) == running)
        desk.clock.advance(hook_threads.PATIENCE_S)
        desk.threads.look()
    assert len(desk.threads._threads) == 3
    for gate in desk.gates.values():
        gate.set()
    desk.wait_for(lambda: len(desk.said) == 6)


def test_a_close_waits_within_its_bound_and_names_what_runs(desk: Desk) -> None:
    """What is queued for others runs before; a thread of ours is known as such until its end."""
    desk.submit("open 0", "t[0]", hangs=True)
    desk.submit("close 0", "t[0]")
    desk.submit("close 1", "t[1]")
    desk.wait_for(lambda: "open 0" in desk.threads_of)
    held = next(iter(desk.threads._threads))
    desk.clock.advance(hook_threads.PATIENCE_S)
    assert desk.threads.close(0.0) == ["open 0 (call open 0)", "call close 0", "call close 1"]
    desk.wait_for(lambda: desk.threads.close(0.0) == ["open 0 (call open 0)", "call close 0"])
    assert desk.threads.owns(held)
    assert not desk.threads.owns(threading.current_thread())
    desk.gates["open 0"].set()
    desk.wait_for(lambda: desk.threads.close(0.0) == [])
    assert desk.said == ["close 1", "open 0", "close 0"]


def test_a_function_that_raises_is_told_and_skips_the_rest_of_its_call_alone(desk: Desk) -> None:
    """SystemExit, too: without its thread no later assignment would ever open."""
    calls: list[str] = []
    steps: dict[str, Any] = {"on_assigned": lambda: {}["x"], "open": lambda: calls.append("open")}
    assert desk.threads.submit("opening t[0]", steps, "t[0]").done.wait(10.0)
    assert desk.threads.submit("leave", {"leave": sys.exit}).done.wait(10.0)
    desk.submit("next", "t[0]")
    desk.wait_for(lambda: desk.said == ["next"])
    assert calls == []
    assert [(name, type(error)) for name, error in desk.raised] == [
        ("opening t[0]", KeyError),
        ("leave", SystemExit),
    ]
