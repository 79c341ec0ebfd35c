"""Every call of an asyncio consumer, in one of two classes; prints what each of them did, line by line.

    python calls.py confluent_kafka|ehkafka BOOTSTRAP PROPERTIES

The topic `t` has a hundred records. Run by `test_contract.py`, which compares the lines.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from confluent_kafka import Consumer as Bare
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

MODULE, BOOTSTRAP, PROPERTIES = sys.argv[1:]
AIOConsumer: Any = importlib.import_module(f"{MODULE}.aio").AIOConsumer
BASE = json.loads(PROPERTIES) | {"bootstrap.servers": BOOTSTRAP, "enable.auto.commit": False}
FIRST = TopicPartition("t", 0)


def shown(value: Any) -> str:
    """Return all that a program can read of a result."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, Message):
        return f"message {value.partition()}@{value.offset()} {value.key()!r}"
    if isinstance(value, KafkaError):
        return f"{value.name()} {value.str()!r}"
    if isinstance(value, AIOConsumer):
        return "the consumer"
    return repr(value) if isinstance(value, TopicPartition | str | int | None) else type(value).__name__


def report(what: str, result: Any) -> None:
    """Print one line."""
    sys.stdout.write(f"{what}: {shown(result)}\n")
    sys.stdout.flush()


async def call(what: str, function: Any, *arguments: Any, **named: Any) -> Any:
    """Call and await, report the result or the exception, and return the result."""
    try:
        result = await function(*arguments, **named)
    except KafkaException as error:
        report(what, f"raised KafkaException {shown(error.args[0])}")
    except Exception as error:
        report(what, f"raised {type(error).__name__} {error}")
    else:
        report(what, result)
        return result
    return None


def opening() -> None:
    """Report what constructors refuse."""
    wrong: list[tuple[Any, ...]] = [({},), ("text",), (BASE, 0), ()]
    for arguments in [*wrong, (BASE | {"group.id": "g", "no.such": 1},)]:
        try:
            AIOConsumer(*arguments)
        except KafkaException as error:
            report("wrong arguments", f"KafkaException {shown(error.args[0])}")
        except Exception as error:
            report("wrong arguments", f"{type(error).__name__} {error}".replace("AIOConsumer.", ""))


async def reading() -> None:
    """Subscribe, poll, consume, seek, pause, and whatever else only reads."""
    async with AIOConsumer(BASE | {"group.id": "reading"}, max_workers=5) as consumer:
        report("executor", consumer.executor._max_workers)
        await call("subscribe to text", consumer.subscribe, "t")
        await call("subscribe", consumer.subscribe, ["t"])
        report("first", await until(consumer))
        await call("next", consumer.poll, 5.0)
        await call("by name", consumer.poll, timeout=5.0)
        await call("many", consumer.consume, 3, 5.0)
        await call("many by name", consumer.consume, num_messages=2, timeout=5.0)
        await call("poll text", consumer.poll, "1")
        await call("poll nothing", consumer.poll, None)
        await call("consume too few", consumer.consume, -1, 0)
        await call("consume too many", consumer.consume, 2_000_000, 0)
        await call("consume nothing", consumer.consume, 0, 60)
        await call("consume text", consumer.consume, "1")
        await call("assignment", consumer.assignment)
        await call("position", consumer.position, [FIRST])
        await call("watermarks", consumer.get_watermark_offsets, FIRST, timeout=5.0)
        await call(
            "times", consumer.offsets_for_times, [TopicPartition("t", 0, 4_000_000_000_000)], timeout=5.0
        )
        await call("topics", consumer.list_topics, timeout=5.0)
        await call("group", consumer.consumer_group_metadata)
        await call("committed", consumer.committed, [FIRST], timeout=5.0)
        await call("pause", consumer.pause, [FIRST])
        await call("resume", consumer.resume, [FIRST])
        await call("seek", consumer.seek, TopicPartition("t", 0, 50))
        report("after the seek", await until(consumer))
        await call("seek elsewhere", consumer.seek, TopicPartition("t", 9, 0))
        await call("seek text", consumer.seek, "t")
        await call("credentials", consumer.set_sasl_credentials, "name", "word")
        await call("unsubscribe", consumer.unsubscribe)
    for name in ("poll", "consume", "assignment", "unsubscribe", "close"):
        await call(f"{name} after close", getattr(consumer, name))


async def committing() -> None:
    """Commit in every way, store, and hear the answers."""
    heard: list[Any] = []

    async def on_commit(error: Any, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        heard.append((error, partitions[0].offset))

    async with AIOConsumer(BASE | {"group.id": "c", "on_commit": on_commit}) as consumer:
        await call("nothing to commit", consumer.commit, asynchronous=False)
        await consumer.assign([TopicPartition("t", 0, 0)])
        message = await until(consumer)
        await call("message", consumer.commit, message, asynchronous=False)
        await call("offsets", consumer.commit, offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        await call("asynchronous", consumer.commit, offsets=[TopicPartition("t", 0, 8)])
        while (None, 8) not in heard:
            await consumer.poll(0.05)
        await call("both", consumer.commit, message, offsets=[FIRST])
        await call("text", consumer.commit, "t")
        await call("store", consumer.store_offsets, message)
        await call("committed", consumer.committed, [FIRST], timeout=5.0)
        await call("incremental", consumer.incremental_unassign, [FIRST])
        await call("incremental", consumer.incremental_assign, [TopicPartition("t", 0, 20)])
        report("from there", await until(consumer))
        await call("unassign", consumer.unassign)
        await call("assignment", consumer.assignment)


async def rebalancing() -> None:
    """Callbacks that await the consumer, and one that fails at its end."""

    async def on_assign(consumer: Any, partitions: list[TopicPartition]) -> None:
        report("assigned", [consumer, *partitions])
        await call("committed", consumer.committed, partitions, timeout=5.0)
        await call("assign", consumer.assign, [TopicPartition("t", 0, 30)])

    async def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
        report("revoked", [consumer, *partitions])
        await call("commit", consumer.commit, offsets=[TopicPartition("t", 0, 33)], asynchronous=False)

    async with AIOConsumer(BASE | {"group.id": "r"}) as consumer:
        await consumer.subscribe(["t"], on_assign=on_assign, on_revoke=on_revoke)
        report("first", await until(consumer))
        polls = await asyncio.gather(*(consumer.poll(5.0) for _ in range(3)), consumer.consume(2, 5.0))
        report("several at once", sorted(shown(polls).replace("[", "").replace("]", "").split(", ")))


async def until(consumer: Any) -> Any:
    """Return the next record."""
    async with asyncio.timeout(30):
        while (message := await consumer.poll(0.2)) is None or message.error():
            pass
    return message


async def main() -> None:
    """Run all of it."""
    opening()
    for scenario in (reading, committing, rebalancing):
        await scenario()
    bare = Bare(BASE | {"group.id": "r"})
    report("what is committed", bare.committed([FIRST], timeout=5.0))
    bare.close()
    report("the end", "")


asyncio.run(main())
