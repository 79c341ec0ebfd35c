"""Handlers that send, as users write them."""

from __future__ import annotations

from dataclasses import dataclass

import ehkafka


@dataclass
class Reading:
    home: str
    celsius: float


app = ehkafka.App(group="alarms", start="earliest")


@app.handler("readings", to="alarms")
def warn(reading: Reading) -> dict[str, float] | None:
    return {"celsius": reading.celsius} if reading.celsius > 40 else None


@app.handler("readings", to=["alarms", "means"], acknowledged="before_next")
async def warn_twice(record: ehkafka.Record, reading: Reading) -> list[ehkafka.Send]:
    record.send(b"early", topic="means", headers=[("kind", b"mean")])
    return [ehkafka.Send(reading.home, key=reading.home), ehkafka.Send(None, topic="means", partition=0)]


@app.handler("readings", to="alarms")
class Warner:
    def process(self, reading: Reading) -> ehkafka.Send:
        return ehkafka.Send(reading.home, key=None, headers={"kind": "alarm"})


@app.batch_handler("readings", to=("alarms", "means"))
def warn_all(batch: ehkafka.Batch[Reading]) -> list[str]:
    return [reading.home for reading in batch.values]
