"""W17's peers: one output for each record, by FastStream's `@publisher` and by Quix's `to_topic`.

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

from _bench_marks import BEGIN, END, mark
from _bench_memory import peak_memory_kib

LINGER_MS = 5
SENDING = {"linger.ms": LINGER_MS, "batch.num.messages": 10_000, "batch.size": 1_000_000}


class Count:
    """Marks the first record and the last one that counts."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._seen = 0
        self._started_s = 0.0
        self.took_s = 0.0

    def one(self) -> bool:
        """Count one; True once it was the last."""
        if not self._seen:
            mark(BEGIN)
            self._started_s = time.perf_counter()
        self._seen += 1
        if self._seen == self._records:
            self.took_s = time.perf_counter() - self._started_s
            mark(END)
        return self._seen >= self._records


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
    peers: dict[str, Any] = {"peer_faststream": faststream, "peer_quix": quix}
    took_s = peers[name](**options)
    records = options["records"]
    result = {"records": records, "records_per_s": records / took_s, "rss_mib": peak_memory_kib() // 1024}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
