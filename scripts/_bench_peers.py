"""The peers of W15 and W17: FastStream's batch subscriber; one output for each record, by it and by Quix.

Run by a Python of its own that has both packages (`scripts/bench --peers PYTHON`); they are nobody's
dependency, so nothing of ehkafka is imported here. Both send with the settings of the other sides. What they
have sent last is not waited for: a little in their favour.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import uuid
from typing import Any

import orjson
from _bench_marks import BEGIN, END, mark
from _bench_memory import peak_memory_kib
from _bench_row import BATCH_RECORDS_MAX

LINGER_MS = 5
SENDING = {"linger.ms": LINGER_MS, "batch.num.messages": 10_000, "batch.size": 1_000_000}


class Count:
    """Marks the first record and the last one that counts."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._seen = 0
        self._started_s = 0.0
        self.took_s = 0.0

    def begin(self) -> None:
        """Hear that records have come, the first ones perhaps."""
        if not self._started_s:
            mark(BEGIN)
            self._started_s = time.perf_counter()

    def add(self, records: int) -> bool:
        """Count some that have ended; True once the last was among them."""
        self._seen += records
        if self._seen >= self._records and not self.took_s:
            self.took_s = time.perf_counter() - self._started_s
            mark(END)
        return self._seen >= self._records

    def one(self) -> bool:
        """Count one that has come and ended; True once it was the last."""
        self.begin()
        return self.add(1)


def faststream_batches(bootstrap: str, topic: str, records: int, work: str) -> float:
    """FastStream's batch subscriber on confluent-kafka; values as they came, as that is quickest."""
    from faststream.confluent import KafkaBroker  # noqa: PLC0415 - likewise

    broker = KafkaBroker(bootstrap, config={"fetch.queue.backoff.ms": 5}, logger=None)
    count, done = Count(records), asyncio.Event()

    async def values(message: Any) -> list[bytes]:
        return [one.value() for one in message.raw_message]

    @broker.subscriber(
        topic,
        batch=True,
        max_records=BATCH_RECORDS_MAX,
        group_id=f"bench-{uuid.uuid4()}",
        auto_offset_reset="earliest",
        decoder=values,
    )
    async def handle(batch: list[bytes]) -> None:
        count.begin()
        if work == "json":
            for value in batch:
                orjson.loads(value)
        if count.add(len(batch)):
            done.set()

    async def run() -> None:
        await broker.start()
        await done.wait()
        await broker.stop()

    asyncio.run(run())
    return count.took_s


def faststream(bootstrap: str, topic: str, records: int, to: str) -> float:
    """FastStream with confluent-kafka, which awaits each message; one call at a time, for the order."""
    from faststream.confluent import KafkaBroker, KafkaMessage, KafkaResponse  # noqa: PLC0415 - likewise

    broker = KafkaBroker(bootstrap, linger_ms=LINGER_MS, logger=None)
    count, done = Count(records), asyncio.Event()

    @broker.publisher(to)
    @broker.subscriber(topic, group_id=f"bench-{uuid.uuid4()}", auto_offset_reset="earliest")
    async def send_on(_body: bytes, message: KafkaMessage) -> KafkaResponse:
        if count.one():
            done.set()
        return KafkaResponse(message.body, key=message.raw_message.key())

    async def run() -> None:
        await broker.start()
        await done.wait()
        await broker.stop()

    asyncio.run(run())
    return count.took_s


def quix(bootstrap: str, topic: str, records: int, to: str) -> float:
    """Quix Streams, which sends in the background and commits every five seconds."""
    from quixstreams import Application  # noqa: PLC0415 - each peer loads its own

    count = Count(records)

    def processed(_topic: str, _partition: int, _offset: int) -> None:
        if count.one():
            app.stop()

    app = Application(
        broker_address=bootstrap,
        consumer_group=f"bench-{uuid.uuid4()}",
        auto_offset_reset="earliest",
        producer_extra_config=SENDING,
        on_message_processed=processed,
        auto_create_topics=False,
        loglevel=None,
    )
    plain = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    sent = {"key_serializer": "bytes", "value_serializer": "bytes"}
    app.dataframe(app.topic(topic, **plain)).to_topic(app.topic(to, **sent))
    app.run()
    return count.took_s


def main() -> None:
    """Run the peer named on the command line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    peers: dict[str, Any] = {
        "peer_faststream": faststream,
        "peer_faststream_batches": faststream_batches,
        "peer_quix": quix,
    }
    took_s = peers[name](**options)
    records = options["records"]
    result = {"records": records, "records_per_s": records / took_s, "rss_mib": peak_memory_kib() // 1024}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
