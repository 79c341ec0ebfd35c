"""Before: a loop with confluent-kafka that adds up what each room has used.

    python confluent_loop.py localhost:9092 100

Reads that many records of the topic `readings` and prints the sums. It looks right, and commits records
that it has not handled: the commit is sent a little later, perhaps when the next batch has arrived.
"""

import sys
from collections import Counter

from confluent_kafka import Consumer

bootstrap, records = sys.argv[1], int(sys.argv[2])
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "drop-in-confluent-loop",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
    }
)
consumer.subscribe(["readings"])

used: Counter[str] = Counter()
while sum(used.values()) < records:
    for message in consumer.consume(20, timeout=0.2):
        if message.error() is None:
            used[(message.key() or b"").decode()] += 1
    if used:
        consumer.commit()
consumer.close()

for room, count in sorted(used.items()):
    print(f"{room}: {count}")
