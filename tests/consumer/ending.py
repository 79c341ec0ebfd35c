"""A program that asks for a hundred asynchronous commits and ends without a close.

    python ending.py HOW BOOTSTRAP

Run by `test_ending.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from functools import partial
from typing import Any

from ehkafka import Consumer
from ehkafka.aio import AIOConsumer

how, bootstrap = sys.argv[1:]
config = {
    "bootstrap.servers": bootstrap,
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}


def read(consumer: Any, is_ended: Any = lambda: True) -> Any:
    """Commit each of a hundred records, and keep the consumer until something is true."""
    consumer.subscribe(["t"])
    count = 0
    while count < 100:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            consumer.commit(message)
            count += 1
    while not is_ended():
        consumer.poll(0.05)
    return consumer


async def read_async() -> None:
    """Do the same on a loop."""
    consumer = AIOConsumer(config)
    await consumer.subscribe(["t"])
    for _ in range(100):
        message = await consumer.poll(5.0)
        assert message is not None
        await consumer.commit(message)


def forked(calls: dict[str, Any]) -> None:
    """Fork, and end with the child's exit code: 0 if each call is refused by the same words."""
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    for name, call in calls.items():
        try:
            call()
            said = "nothing"
        except RuntimeError as error:
            said = str(error)
        assert said.startswith("The process forked after"), (name, said)
    sys.exit(0)


async def fork_async() -> None:
    """Fork in a task; the child has a loop of its own."""
    consumer = AIOConsumer(config)

    def on_another_loop(call: Any) -> Any:
        asyncio.events._set_running_loop(None)
        return asyncio.new_event_loop().run_until_complete(call())

    forked({call.__name__: partial(on_another_loop, call) for call in (consumer.poll, consumer.close)})


def end(_consumer: Any = None) -> None:
    """End this thread, as if it was the program."""
    sys.exit(0)


match how:
    case "fork":
        kept = read(Consumer(config))
        names = [name for name in dir(kept) if not name.startswith("_") and name not in {"forked", "at_exit"}]
        forked({name: lambda name=name: getattr(kept, name)() for name in names})
    case "fork-aio":
        read(Consumer(config)).close()
        asyncio.run(fork_async())
    case "aio":
        asyncio.run(read_async())
    case "thread":
        threading.Thread(target=lambda: read(Consumer(config))).start()
    case "exit-in-thread":
        kept = Consumer(config)
        threading.Thread(target=lambda: end(read(kept))).start()
    case "daemon":  # asked for by a thread that Python ends in the middle
        kept = Consumer(config)
        threading.Thread(target=lambda: [read(kept), time.sleep(60)], daemon=True).start()
        time.sleep(2.0)
    case "polled-elsewhere":
        kept = Consumer(config)
        is_read = threading.Event()
        threading.Thread(target=read, args=(kept, lambda: is_read.set() or False), daemon=True).start()
        is_read.wait()
    case _:
        kept = read(Consumer(config))
        if how == "cycle":
            kept.itself = [kept]
        elif how == "exit":
            sys.exit(0)
        elif how == "raise":
            raise ValueError("the program's own")
