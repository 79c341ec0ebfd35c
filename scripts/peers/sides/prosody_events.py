"""prosody-events 0.6.1 on its own mock broker, for on Kafka it needs Cassandra: no figures of Kafka.

The mock broker is librdkafka's, inside the same process, and its CPU is counted with it; it has topics of
four partitions with 5 MB each, so the side fills several topics by itself before it says that it is ready;
it answers a fetch only after up to 500 ms, so a latency would be the mock's. Values are JSON objects, which
the library always decodes by itself: "noop" and "json" are the same. In the order of keys, as many handlers
at once as workers. At least once: it commits what is finished without a gap, once a second.

Settings, from https://github.com/prosody-events/prosody-py/blob/main/CONFIGURATION.md:

- `mock=True`: "Use in-memory Kafka for testing"; it needs no Cassandra and turns telemetry off.
- pipeline mode, its default, and the only one that lets other keys go on while a failed one waits:
  https://github.com/prosody-events/prosody-py/blob/main/Readme.md#pipeline-mode.
- `max_concurrency`: the workers, or 100 where the handler waits for nothing.
- `max_uncommitted` 10,000 instead of 64, or it pauses all the time.
- `poll_interval` 5 ms instead of 100 ms.
- `defer_base`: the retry's delay, at least 1 s.
- `monopolization_enabled=False`: it refuses a key that takes 90 % of a window, as one key alone does.
- `probe_port=None`, `PROSODY_LOG=off`: no HTTP server, no log.
- no uvloop, which its documentation does not name.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import msgspec
from order_check import OrderCheck
from protocol import Options, Report
from reading import Reading

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Before it is imported: its own log filter, read once.
os.environ["PROSODY_LOG"] = "off"
from prosody import EventHandler, ProsodyClient

# It is asked for and never called in the mock.
NO_BROKER = "127.0.0.1:1"
FILLED = 120_000
TOPIC_RECORDS = 40_000
SENT_AT_ONCE = 1_000
IN_FLIGHT_MAX = 100
UNCOMMITTED_MAX = 10_000
POLL_S = 0.005
SLEEPING = ("sleep", "poison")
VALUE_BYTES = 200


class Traffic(msgspec.Struct):
    """What the harness's own topics would hold: this side makes its own."""

    # Of 1: how many records fail.
    poison: float = 0.0


class PoisonError(Exception):
    """The failure of the poison work."""


class Handler(EventHandler):
    """Gives each message to a function."""

    def __init__(self, handle: Callable[[Any], Awaitable[None]]) -> None:
        self._handle = handle

    async def on_message(self, context: Any, message: Any) -> None:  # noqa: ARG002 - its signature
        """Handle a message."""
        await self._handle(message)

    async def on_excise(self, context: Any, message: Any) -> None:
        """Handle what is never sent here."""

    async def on_timer(self, context: Any, timer: Any) -> None:
        """Handle what is never set here."""


async def main() -> None:
    """Run until it is asked to end."""
    options, report, order = Options.from_arguments(), Report(), OrderCheck()
    traffic = msgspec.convert(json.loads(sys.argv[1]), Traffic)
    topics = [f"{options.topic}-{n}" for n in range(FILLED // TOPIC_RECORDS)]
    client = await ProsodyClient.create(
        mock=True,
        bootstrap_servers=NO_BROKER,
        group_id=options.group,
        source_system="peers",
        subscribed_topics=topics,
        max_concurrency=options.workers if options.work in SLEEPING else IN_FLIGHT_MAX,
        max_uncommitted=UNCOMMITTED_MAX,
        probe_port=None,
        poll_interval=POLL_S,
        monopolization_enabled=False,
        defer_base=max(options.retry_s, 1.0),
    )
    await fill(client, options, traffic, topics)
    handled = report.cell()
    handle = handler(options, report, handled)
    await client.subscribe(Handler(checked(handle, order) if order.asked else handle))
    while not await client.assigned_partition_count():  # noqa: ASYNC110 - it has no event for it
        await asyncio.sleep(0.05)
    report.ready()
    await follow(report, handled, 2 * FILLED * traffic.poison)
    await client.shutdown()
    order.say()


async def fill(client: ProsodyClient, options: Options, traffic: Traffic, topics: list[str]) -> None:
    """Put the records of the harness's own topics into the mock broker, as many as it can hold."""
    draw = random.Random(1)  # noqa: S311 - the same records in every run
    pad = "x" * (VALUE_BYTES - 40)
    for topic in topics:
        for _ in range(TOPIC_RECORDS // SENT_AT_ONCE):
            sends = []
            for number in range(SENT_AT_ONCE):
                key = f"key-{int(draw.random() * (options.keys or 1)):05d}"
                poison = draw.random() < traffic.poison
                value = {"home": "poison" if poison else f"home-{number:03d}", "n": number, "pad": pad}
                sends.append(client.send(topic, key, value))
            await asyncio.gather(*sends)


async def follow(report: Report, handled: list[int], poisoned_max: float) -> None:
    """Wait until the side is to end; an empty topic is an error, for it would look like a slow side."""
    while not report.stopping.is_set():
        await asyncio.sleep(0.1)
        if handled[0] >= FILLED - poisoned_max:
            raise SystemExit(f"All {FILLED:,} records that the mock broker was filled with are handled.")


def handler(options: Options, report: Report, handled: list[int]) -> Callable[[Any], Awaitable[None]]:
    """Return the function that each message goes through."""
    sleep_s = options.sleep_s()

    async def nothing(_message: Any) -> None:
        handled[0] += 1

    async def typed(message: Any) -> None:
        msgspec.convert(message.payload, Reading)
        handled[0] += 1

    async def sleep(_message: Any) -> None:
        await asyncio.sleep(sleep_s())
        handled[0] += 1

    if options.work == "poison":
        return poison(options, report, handled)
    works: dict[str, Any] = {"typed": typed, "sleep": sleep}
    return works.get(options.work, nothing)


def poison(options: Options, report: Report, handled: list[int]) -> Callable[[Any], Awaitable[None]]:
    """Return the function that fails at the first attempt of each poisoned record."""
    failed, sleep_s = report.cell(failed=True), options.sleep_s()
    once: set[tuple[str, int, int]] = set()

    async def handle(message: Any) -> None:
        await asyncio.sleep(sleep_s())
        place = (message.topic, message.partition, message.offset)
        if message.payload["home"] != "poison":
            handled[0] += 1
        elif place not in once:
            once.add(place)
            failed[0] += 1
            raise PoisonError

    return handle


def checked(handle: Callable[[Any], Awaitable[None]], order: OrderCheck) -> Callable[[Any], Awaitable[None]]:
    """Return the same function with the check of order around it."""

    async def handle_checked(message: Any) -> None:
        lane = (hash((message.topic, message.partition)), message.key)
        order.begin(*lane, message.offset)
        await handle(message)
        order.end(*lane)

    return handle_checked


if __name__ == "__main__":
    asyncio.run(main())
