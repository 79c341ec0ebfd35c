"""A web app with a consumer in it: `uvicorn --app-dir examples/fastapi main:web`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import ehkafka

endpoint = ehkafka.Endpoint.embedded({"alarms": 2})
# Handlers run on the web app's own event loop, and may use its clients.
consumer = ehkafka.App(group="alarms", endpoint=endpoint, start="earliest", loop="caller", on_end="signal")
alarms: list[str] = []


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    async with consumer:
        yield


web = FastAPI(lifespan=lifespan)
web.mount("/kafka", consumer.http_app)  # probes, metrics and a page


@consumer.handler("alarms")
async def note(record: ehkafka.Record) -> None:
    alarms.append(str(record.partition_key))


@web.post("/alarms/{home}")
async def raise_alarm(home: str) -> dict[str, int]:
    written = await consumer.producer.asend("alarms", {"home": home}, key=home)
    return {"partition": written.partition, "offset": written.offset}


@web.get("/alarms")
async def list_alarms() -> list[str]:
    return alarms
