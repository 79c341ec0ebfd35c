"""Print readings, in order per key: `ehkafka run examples/quickstart/app.py`."""

import os

import ehkafka

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="quickstart", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")


@app.handler("readings", workers=64)
def handle(record: ehkafka.Record) -> None:
    # One write: print's own line end is a second one, and another worker's line may come between.
    print(f"{record.where} {record.key()!r} {record.json()}\n", end="", flush=True)
