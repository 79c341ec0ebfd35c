"""After some more lines: the same as an app.

    python app.py localhost:9092 100

Prints the same. The loop, the commits and the stop are gone; rooms are handled side by side, each in
order, and a record is committed when its handler has returned.
"""

import sys
import threading
from collections import Counter

import ehkafka

bootstrap, records = sys.argv[1], int(sys.argv[2])
app = ehkafka.App(
    endpoint=ehkafka.Endpoint.kafka(bootstrap),
    group="drop-in-app",
    start="earliest",
    consumer={"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000},
)

used: Counter[str] = Counter()
lock = threading.Lock()
done = threading.Event()


@app.handler("readings", workers=4)
def add(record: ehkafka.Record) -> None:
    with lock:
        used[(record.key() or b"").decode()] += 1
        if used.total() >= records:
            done.set()


app.start()
done.wait()
app.stop()

for room, count in sorted(used.items()):
    print(f"{room}: {count}")
