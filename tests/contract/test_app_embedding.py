"""Embedding: in an event loop, in a thread, in another framework's life cycle."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from tests.kit.waiting import wait_until


@pytest.mark.parametrize("loop", ["own", "caller"])
def test_an_app_lives_in_an_event_loop_and_does_not_block_it(lab: Any, recorder: Any, loop: str) -> None:
    """`async with app`: the loop ticks on while the app starts, works and stops; pools open once."""
    seen: list[str] = []

    async def handle(record: Any) -> None:
        recorder(record)

    app = lab.app(handle, loop=loop)
    app.on_start(lambda: seen.append("open"))
    app.on_stop(lambda: seen.append("close"))
    lab.produce("a b c")
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        loop = asyncio.get_running_loop()
        while True:
            before_s = loop.time()
            await asyncio.sleep(0.005)
            longest_s = max(longest_s, loop.time() - before_s)

    async def main() -> None:
        ticker = asyncio.create_task(tick())
        async with app:
            async with asyncio.timeout(10.0):
                while recorder.count < 3:  # noqa: ASYNC110 - counted by another thread
                    await asyncio.sleep(0.01)
        ticker.cancel()

    asyncio.run(main())
    assert seen == ["open", "close"]
    # Three keys, side by side: any order.
    assert sorted(recorder.offsets()) == [0, 1, 2]
    assert lab.committed() == 3
    # Joining and leaving the group take longer than that.
    assert longest_s < 0.4


def test_an_app_runs_in_a_thread_and_takes_no_signal_handlers(lab: Any, recorder: Any) -> None:
    """`run()` outside the main thread, ended by stop() from another one; a restart repeats nothing."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    lab.produce("a b c")
    for expected in (3, 4):
        app = lab.app(recorder)
        thread = threading.Thread(target=app.run)
        thread.start()
        wait_until(lambda expected=expected: recorder.count == expected)
        assert [signal.getsignal(number) for number in numbers] == before
        app.stop()
        thread.join(10.0)
        assert not thread.is_alive()
        lab.produce("d")
    assert recorder.offsets() == [0, 1, 2, 3]


def test_run_gives_the_signal_handlers_back(lab: Any, program: Any) -> None:
    """In the main thread the handlers are there while it runs and restored afterwards."""
    lab.produce("a")
    started = program(
        """
        def mine(*_): pass
        signal.signal(signal.SIGTERM, mine)
        @app.handler("t")
        def handle(record):
            say("ours", signal.getsignal(signal.SIGTERM) is not mine)
            os.kill(os.getpid(), signal.SIGTERM)
        run()
        say("restored", signal.getsignal(signal.SIGTERM) is mine)
        """
    )
    assert started.wait() == 0
    assert started.printed("ours True")
    assert started.printed("restored True")


def test_two_apps_of_different_groups_share_a_process(lab: Any) -> None:
    """Each handles everything and commits for its own group."""
    first, second = lab.recorder(), lab.recorder()
    lab.judged = False  # the checker knows one group
    apps = [lab.app(first, group="one"), lab.app(second, group="two")]
    for app in apps:
        app.start()
    lab.produce("a b c")
    wait_until(lambda: (first.count, second.count) == (3, 3))
    for app in apps:
        app.stop()
    assert (lab.committed(group="one"), lab.committed(group="two")) == (3, 3)


def test_a_start_that_is_cancelled_leaves_nothing_running(lab: Any, recorder: Any) -> None:
    """The task dies while the app starts in its thread: the app is stopped, its pools are closed."""
    seen: list[str] = []
    entered, go_on = threading.Event(), threading.Event()
    app = lab.app(recorder)
    app.on_stop(lambda: seen.append("closed"))

    @app.on_start
    def open_pools() -> None:
        seen.append("opened")
        entered.set()
        assert go_on.wait(10.0)

    async def main() -> None:
        async def live() -> None:
            async with app:
                seen.append("never")

        task = asyncio.create_task(live())
        await asyncio.to_thread(entered.wait, 10.0)
        task.cancel()
        asyncio.get_running_loop().call_soon(go_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["opened", "closed"]
    assert app.state == "stopped"
