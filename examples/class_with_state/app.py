"""A class whose instances belong to a partition, with state of their own.

python examples/class_with_state/app.py
"""

from typing import Any

import ehkafka

endpoint = ehkafka.Endpoint.embedded({"clicks": 2})
app = ehkafka.App(group="class-with-state", endpoint=endpoint, start="earliest")


@app.on_start
def produce() -> None:
    for number in range(6):
        app.producer.send("clicks", {"page": f"page-{number % 2}"}, partition=number % 2)
    app.producer.flush()


# All records of a partition run one after another, so the instance needs no lock.
@app.handler("clicks", order_by=ehkafka.by_partition)
class Counter:
    """Counts the clicks of one partition."""

    def open(self, partition: ehkafka.TopicPartition) -> None:
        """Begin when the partition is assigned: load what was counted before."""
        self.partition = partition
        self.clicks: dict[str, int] = {}

    def process(self, record: ehkafka.Record) -> None:
        """Count a click."""
        page: Any = record.json()["page"]
        self.clicks[page] = self.clicks.get(page, 0) + 1

    def close(self, reason: str) -> None:
        """Save what was counted: the partition is "revoked", "lost", or the app has "stopped"."""
        print(f"{self.partition} {reason}: {self.clicks}")


if __name__ == "__main__":
    app.run(until="caught_up")
