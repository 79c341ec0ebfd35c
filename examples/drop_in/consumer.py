"""After one line: the same loop with `ehkafka.Consumer`.

    python consumer.py localhost:9092 100

Prints the same. Each commit takes the positions at its call, those asked for while one is on its way share
a request, and on Event Hubs they keep its pace.
"""

import sys
from collections import Counter

from ehkafka import Consumer

bootstrap, records = sys.argv[1], int(sys.argv[2])
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": "drop-in-consumer",
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
