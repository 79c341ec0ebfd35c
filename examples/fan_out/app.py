"""One record becomes several, in two topics: `ehkafka run examples/fan_out/app.py`.

An order goes to `lines`, a message for each of its items, and to `totals`. The order is committed when the
broker has acknowledged all of them; after a crash they come again, so each says which order it is of.
"""

import os
from dataclasses import dataclass

import ehkafka

broker = os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")
app = ehkafka.App(group="split", endpoint=ehkafka.Endpoint.kafka(broker), start="earliest")


@dataclass
class Order:
    """What a customer orders: how many of each item, and what one costs."""

    number: int
    counts: dict[str, int]
    cents: dict[str, int]


@app.handler("orders", to=["lines", "totals"], on_failure=ehkafka.DeadLetter("orders.dead"))
def split(order: Order) -> list[ehkafka.Send]:
    """Return a line for each item, and the sum; an order without a price for each item raises."""
    lines = [
        # By its item: the packers get each item's lines in order.
        ehkafka.Send({"order": order.number, "item": item, "count": count}, key=item)
        for item, count in order.counts.items()
    ]
    cents = sum(count * order.cents[item] for item, count in order.counts.items())
    # By the order's own key, the customer: the sums of one customer stay in order.
    return [*lines, ehkafka.Send({"order": order.number, "cents": cents}, topic="totals")]
