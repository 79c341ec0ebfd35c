"""A broker with one topic, asyncio consumers on it, and what the group has committed there."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from confluent_kafka import Message

    from ehkafka.aio import AIOConsumer

RECORDS = 100
LIMIT_S = 30.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own, which must not stand still."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await pyfuncitem.obj(**named)

    asyncio.run(limited())
    return True


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return an embedded broker with `t` (one partition), of a hundred records."""
    with EmbeddedBroker({"t": 1}) as running:
        running.produce("t", [(f"key-{number}", b"v") for number in range(RECORDS)])
        yield running


@pytest.fixture
def properties(broker: EmbeddedBroker) -> dict[str, Any]:
    """Return what a consumer of the group `g` needs; nothing is committed that the test does not ask for."""
    fixed = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20, "log_level": 0}
    return broker.consumer_properties | fixed | {"enable.auto.commit": False}


@pytest.fixture
def committed(broker: EmbeddedBroker) -> Callable[[], int | None]:
    """Return a function that reads how far the group `g` has committed `t`."""
    return lambda: broker.committed("g", "t").get(0)


@pytest.fixture
def read() -> Callable[[AIOConsumer, int], Coroutine[Any, Any, list[Message]]]:
    """Return a coroutine function that returns so many records."""

    async def read_some(consumer: AIOConsumer, count: int) -> list[Message]:
        found: list[Message] = []
        while len(found) < count:
            found.extend(m for m in await consumer.consume(count - len(found), 0.2) if m.error() is None)
        return found

    return read_some
