"""One key in order, many keys at once, in one partition: `python examples/ordered_keys/app.py`."""

import threading
import time

import ehkafka

KEYS, ROUNDS, CALL_S = 20, 5, 0.05
endpoint = ehkafka.Endpoint.embedded({"readings": 1})
app = ehkafka.App(group="ordered-keys", endpoint=endpoint, start="earliest")
seen: dict[str, list[int]] = {}
threads: set[str] = set()


@app.on_start
def produce() -> None:
    for number in range(ROUNDS):
        for key in range(KEYS):
            app.producer.send("readings", {"number": number}, key=f"home-{key}")
    app.producer.flush()


@app.handler("readings", workers=KEYS)
def handle(record: ehkafka.Record) -> None:
    time.sleep(CALL_S)  # a call to a database
    threads.add(threading.current_thread().name)
    # One key's records never run at the same time: its list needs no lock.
    seen.setdefault(str(record.partition_key), []).append(record.json()["number"])


if __name__ == "__main__":
    app.run(until="caught_up")
    in_order = sum(numbers == list(range(ROUNDS)) for numbers in seen.values())
    print(f"{in_order} of {KEYS} keys in order, with 1 partition")
    print(f"handled by more than one thread: {len(threads) > 1}")
