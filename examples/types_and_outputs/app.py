"""A dataclass comes in, messages to two topics go out: `python examples/types_and_outputs/app.py`.

An order becomes a line for each item, in `lines`, and its total, in `totals`. It is committed once the broker
has acknowledged all of them; after a crash they are sent again, so each names its order.
"""

from dataclasses import dataclass

import ehkafka

TOPICS = {"orders": 2, "lines": 2, "totals": 1, "orders.dead": 1}
app = ehkafka.App(group="split", endpoint=ehkafka.Endpoint.embedded(TOPICS), start="earliest")


@dataclass
class Order:
    """What a customer orders: how many of each item, and what one costs."""

    number: int
    counts: dict[str, int]
    cents: dict[str, int]


@app.on_start
def produce() -> None:
    lamps = Order(1, {"lamp": 2, "nail": 100}, {"lamp": 1500, "nail": 3})
    app.producer.send("orders", lamps, key="ann")
    app.producer.send("orders", {"number": "two"}, key="bob")
    app.producer.flush()


@app.handler("orders", to=["lines", "totals"], on_failure=ehkafka.DeadLetter("orders.dead"))
def split(order: Order) -> list[ehkafka.Send]:
    lines = [
        # The item is the key: the packers get each item's lines in order.
        ehkafka.Send({"order": order.number, "item": item, "count": count}, key=item)
        for item, count in order.counts.items()
    ]
    cents = sum(count * order.cents[item] for item, count in order.counts.items())
    # Without a key= it is the record's own, the customer: the totals of a customer stay in order.
    return [*lines, ehkafka.Send({"order": order.number, "cents": cents}, topic="totals")]


@app.handler("lines", "totals", "orders.dead")
def show(record: ehkafka.Record) -> None:
    print(record.topic(), record.partition_key, record.json())


if __name__ == "__main__":
    app.run(until="caught_up")
