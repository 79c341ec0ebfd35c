"""Handle records, each key's in order: `python examples/hello/app.py`."""

import ehkafka

# A broker inside of this process. For a real one: Endpoint.kafka("localhost:9092"), or Event Hubs.
endpoint = ehkafka.Endpoint.embedded({"greetings": 4})
app = ehkafka.App(group="hello", endpoint=endpoint, start="earliest")


@app.on_start
def produce() -> None:
    for number in (1, 2, 3):
        for name in ("ann", "bob"):
            app.producer.send("greetings", {"number": number}, key=name)
    app.producer.flush()


@app.handler("greetings", workers=64)
def greet(record: ehkafka.Record) -> None:
    print(record.partition_key, record.json()["number"])


if __name__ == "__main__":
    app.run(until="caught_up")
