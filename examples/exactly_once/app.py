"""Each transfer is booked once, whatever is killed: `python examples/exactly_once/app.py`.

Needs Apache Kafka 2.5 or newer, at EHKAFKA_BOOTSTRAP or localhost:9092, with the topics `transfers` and
`bookings`: the broker inside of a process has no transactions.
"""

import os

import ehkafka

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="bank", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest", exactly_once=True)


@app.on_start
def produce() -> None:
    for number in range(3):
        app.producer.send("transfers", {"cents": 100 + number}, key="ann", partition=0)
    app.producer.flush()


@app.handler("transfers", to="bookings")
def book(record: ehkafka.Record) -> list[ehkafka.Send]:
    cents = record.json()["cents"]
    # Both bookings and the commit of the transfer are in one transaction: all of it is seen, or nothing.
    return [
        ehkafka.Send({"account": "ann", "cents": -cents}, key="ann"),
        ehkafka.Send({"account": "shop", "cents": cents}, key="shop"),
    ]


if __name__ == "__main__":
    app.run(until="caught_up")
    print("booked")
