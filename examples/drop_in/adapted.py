"""The way between: the old handler, taking a `confluent_kafka.Message`, in an app.

python adapted.py localhost:9092 100
"""

import sys
import threading
from collections import Counter

from confluent_kafka import Message

import ehkafka

bootstrap, records = sys.argv[1], int(sys.argv[2])
app = ehkafka.App(
    endpoint=ehkafka.Endpoint.kafka(bootstrap),
    group="drop-in-adapted",
    start="earliest",
    consumer={"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000},
)

used: Counter[str] = Counter()
done = threading.Event()


def handle(message: Message) -> None:
    used[(message.key() or b"").decode()] += 1
    if used.total() >= records:
        done.set()


# One worker, because this handler was written for a loop and has no lock.
app.handler("readings", workers=1)(ehkafka.adapt(handle))
app.start()
done.wait()
app.stop()

for room, count in sorted(used.items()):
    print(f"{room}: {count}")
