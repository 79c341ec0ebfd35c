"""The hook threads: one call after the other while they return, and never one partition's for another's."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import UserCodeHangs
from ehkafka.intake import hook_threads
from ehkafka.intake.hook_threads import HookThreads
from tests.kit.clock import VirtualClock
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Bench:
    """Hook threads under a clock of the test's, and calls that wait for it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.seen: list[str] = []
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
            self.seen.append(name)

        return self.threads.submit(f"call {name}", {name: call}, order)

    def wait_for(self, true: Callable[[], Any]) -> None:
        """Poll with a deadline."""
        wait_until(true)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Return hook threads that leave at the end."""
    bench = Bench()
    yield bench
    for gate in bench.gates.values():
        gate.set()
    bench.wait_for(lambda: bench.threads.close(0.0) == [])
    bench.wait_for(lambda: not bench.threads._threads)


def test_calls_that_return_run_one_after_the_other_on_one_thread(bench: Bench) -> None:
    """Hooks of a program that never thought of threads are not called side by side."""
    for number in range(20):
        bench.submit(str(number), f"t[{number % 3}]")
    bench.wait_for(lambda: len(bench.seen) == 20)
    assert bench.seen == [str(number) for number in range(20)]
    assert set(bench.threads_of.values()) == {"ehkafka-hooks"}


def test_a_call_that_hangs_holds_up_its_own_order_alone(bench: Bench) -> None:
    """Others wait for a second at most, and are then run by another thread; its own come after it."""
    bench.submit("open 0", "t[0]", hangs=True)
    bench.submit("close 0", "t[0]")
    bench.submit("open 1", "t[1]")
    bench.submit("deadline")
    bench.wait_for(lambda: "open 0" in bench.threads_of)
    bench.threads.check()
    assert bench.seen == []
    bench.clock.advance(hook_threads.PATIENCE_S)
    bench.threads.check()
    bench.wait_for(lambda: bench.seen == ["open 1", "deadline"])
    bench.submit("later")  # without another look
    bench.wait_for(lambda: bench.seen == ["open 1", "deadline", "later"])
    bench.gates["open 0"].set()
    bench.wait_for(lambda: bench.seen[3:] == ["open 0", "close 0"])
    bench.wait_for(lambda: len(bench.threads._threads) == 1)


def test_a_call_that_hangs_is_named_until_it_returns(bench: Bench) -> None:
    """Once in the log; in the health for as long as it lasts."""
    call = bench.submit("open", "t[0]", hangs=True)
    behind = bench.submit("close", "t[0]")
    other = bench.submit("else", "t[1]")
    bench.wait_for(lambda: "open" in bench.threads_of)
    bench.clock.advance(hook_threads.HANGS_S - 0.1)
    bench.threads.check()
    assert bench.threads.problem is None
    assert not bench.threads.is_held_up(behind)
    bench.clock.advance(2.1)
    for _ in range(3):
        bench.threads.check()
    assert bench.events == [UserCodeHangs("open (call open)", 5.0)]
    assert bench.threads.problem is not None
    assert bench.threads.problem.startswith("open (call open) has not returned for 7 s")
    assert [bench.threads.is_held_up(each) for each in (call, behind, other)] == [False, True, False]
    bench.gates["open"].set()
    assert call.done.wait(10.0)
    assert behind.done.wait(10.0)
    assert bench.threads.problem is None


def test_threads_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many as that in calls that hang, the others wait, and all of them run in the end."""
    monkeypatch.setattr(hook_threads, "THREADS_MAX", 3)
    for number in range(6):
        bench.submit(str(number), f"t[{number}]", hangs=True)
    for running in (1, 2, 3, 3):
        bench.wait_for(lambda running=running: len(bench.threads_of) == running)
        bench.clock.advance(hook_threads.PATIENCE_S)
        bench.threads.check()
    assert len(bench.threads._threads) == 3
    for gate in bench.gates.values():
        gate.set()
    bench.wait_for(lambda: len(bench.seen) == 6)


def test_a_close_waits_within_its_bound_and_names_what_runs(bench: Bench) -> None:
    """What is queued for others runs before; a thread of ours is known as such until its end."""
    bench.submit("open 0", "t[0]", hangs=True)
    bench.submit("close 0", "t[0]")
    bench.submit("close 1", "t[1]")
    bench.wait_for(lambda: "open 0" in bench.threads_of)
    held = next(iter(bench.threads._threads))
    bench.clock.advance(hook_threads.PATIENCE_S)
    # The thread that this starts may have begun the other order's call, or be done with it, before the look.
    left = bench.threads.close(0.0)
    assert [one for one in left if "close 1" not in one] == ["open 0 (call open 0)", "call close 0"]
    bench.wait_for(lambda: bench.threads.close(0.0) == ["open 0 (call open 0)", "call close 0"])
    assert bench.threads.owns(held)
    assert not bench.threads.owns(threading.current_thread())
    bench.gates["open 0"].set()
    bench.wait_for(lambda: bench.threads.close(0.0) == [])
    assert bench.seen == ["close 1", "open 0", "close 0"]


def test_a_function_that_raises_is_reported_and_skips_the_rest_of_its_call_alone(bench: Bench) -> None:
    """SystemExit, too: without its thread no later assignment would ever open."""
    calls: list[str] = []
    steps: dict[str, Any] = {"on_assigned": lambda: {}["x"], "open": lambda: calls.append("open")}
    assert bench.threads.submit("opening t[0]", steps, "t[0]").done.wait(10.0)
    assert bench.threads.submit("leave", {"leave": sys.exit}).done.wait(10.0)
    bench.submit("next", "t[0]")
    bench.wait_for(lambda: bench.seen == ["next"])
    assert calls == []
    assert [(name, type(error)) for name, error in bench.raised] == [
        ("opening t[0]", KeyError),
        ("leave", SystemExit),
    ]
