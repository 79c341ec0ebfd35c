"""A call that fails is tried again, a record that cannot be handled is put aside.

python examples/retry_and_dead_letters/app.py
"""

import ehkafka

endpoint = ehkafka.Endpoint.embedded({"orders": 2, "orders.dead": 1})
app = ehkafka.App(group="retry", endpoint=endpoint, start="earliest")
attempts: dict[int, int] = {}


@app.on_start
def produce() -> None:
    app.producer.send("orders", {"order": 1}, key="ann")
    app.producer.send("orders", "no JSON", key="ann")
    app.producer.send("orders", {"order": 2}, key="ann")
    app.producer.flush()


@app.handler(
    "orders",
    # Only what another attempt may cure; a ValueError goes to the dead letters at once.
    retry=ehkafka.Retry(attempts=5, first_s=0.1, on=(ConnectionError,)),
    on_failure=ehkafka.DeadLetter("orders.dead"),
)
def ship(record: ehkafka.Record) -> None:
    order = record.json()["order"]
    attempts[order] = attempts.get(order, 0) + 1
    if attempts[order] < 3:
        raise ConnectionError("the warehouse does not answer")
    print(f"order {order}: shipped at attempt {attempts[order]}")


@app.handler("orders.dead")
def look(letter: ehkafka.Record) -> None:
    why = (letter.header("ehkafka-error-type") or b"").decode()
    print(f"dead letter: {letter.value()!r}, because of {why}")


if __name__ == "__main__":
    app.run(until="caught_up")
