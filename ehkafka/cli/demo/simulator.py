"""The simulator's process: produces readings as fast as it is allowed to, and tells what was stored.

Started by `feed` as `python -m ehkafka.cli.demo.simulator`; a process of its own, so that it takes no
processor time from the app that the demo measures. It stands for somebody else's producer, so it uses the
plain client. JSON lines, on stdin: the orders, then limits (records of each partition that may be
produced in all), then `{"stop": true}`; the end of stdin ends it at once, so it never outlives the demo.
On stdout: reports. Lines there that are no JSON are the client's own words.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import orjson
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Producer

from ehkafka.cli.demo.world import World

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# Produced between two looks at the limits.
BATCH_RECORDS: Final = 100
# Idempotence keeps the order of a home's readings when the client sends again. A broker that does not take
# them must be noticed while somebody is watching.
PRODUCER_PROPERTIES: Final = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 10_000}
REPORT_EVERY_S: Final = 0.05
FLUSH_S: Final = 15.0


class Orders:
    """What the demo wants now. Written by the thread that reads stdin, read by the producing one."""

    def __init__(self, partitions: int) -> None:
        self.limits = [0] * partitions
        self.stop = threading.Event()
        self.orphaned = False
        self.changed = threading.Event()

    def listen(self) -> None:
        """Take orders until stdin ends."""
        for line in sys.stdin.buffer:
            order = orjson.loads(line)
            self.limits = order.get("limits", self.limits)
            if order.get("stop"):
                self.stop.set()
            self.changed.set()
        self.orphaned = True
        self.stop.set()
        self.changed.set()


class Simulator:
    """One run of the world, on the process's main thread."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._topic: str = plan["topic"]
        self._records_max: int | None = plan["records"]
        partitions: int = plan["partitions"]
        self.orders = Orders(partitions)
        # Seeded, so that a run can be repeated; nothing here is a secret.
        self._world = World(random.Random(plan["seed"]), partitions)  # noqa: S311
        self._producer = Producer(plan["properties"] | PRODUCER_PROPERTIES)
        self._produced = [0] * partitions
        self._total = 0
        # Runs of acknowledged offsets since the last report: partition, first, one past the last.
        self._stored: list[list[int]] = []
        self._current: list[list[int] | None] = [None] * partitions
        self._refused: str | None = None
        self._next_report_s = 0.0

    def run(self) -> None:
        """Produce until asked to stop, or until all records of the plan are stored."""
        orders = self.orders
        while not orders.stop.is_set() and self._left() > 0 and self._refused is None:
            if self._has_room():
                self._produce(min(BATCH_RECORDS, self._left()))
            else:
                orders.changed.wait(0.01)
                orders.changed.clear()
            self._producer.poll(0)
            self._report_if_due()
        if not orders.orphaned:
            missing = self._producer.flush(FLUSH_S)
            if missing and self._refused is None:
                self._refused = f"{missing} readings were not acknowledged within {FLUSH_S:.0f} s"
            self._report(done=True)

    def _left(self) -> int:
        return BATCH_RECORDS if self._records_max is None else self._records_max - self._total

    def _has_room(self) -> bool:
        # All of a batch may fall into one partition.
        limits = zip(self.orders.limits, self._produced, strict=True)
        return all(limit - produced >= BATCH_RECORDS for limit, produced in limits)

    def _produce(self, count: int) -> None:
        now_us = time.time_ns() // 1_000
        for _ in range(count):
            partition, key, value = self._world.next_reading(now_us)
            while not self._enqueued(partition, key, value):
                self._producer.poll(0.01)
            self._produced[partition] += 1
        self._total += count

    def _enqueued(self, partition: int, key: bytes, value: bytes) -> bool:
        try:
            self._producer.produce(
                self._topic, value, key, partition=partition, on_delivery=self._on_delivery
            )
        except BufferError:
            return False
        return True

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = self._refused or error.str()
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        run = self._current[partition]
        if run is not None and run[2] == offset:
            run[2] += 1
        else:
            run = self._current[partition] = [partition, offset, offset + 1]
            self._stored.append(run)

    def _report_if_due(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_EVERY_S
            self._report(done=False)

    def _report(self, *, done: bool) -> None:
        _say({"stored": self._stored, "alarms": self._world.alarms, "error": self._refused, "done": done})
        self._stored = []
        self._current = [None] * len(self._current)


def main() -> None:
    """Read the plan, then follow the orders."""
    simulator: Simulator | None = None
    try:
        simulator = Simulator(orjson.loads(sys.stdin.buffer.readline()))
        threading.Thread(target=simulator.orders.listen, name="orders", daemon=True).start()
        simulator.run()
    except BrokenPipeError:
        return  # the demo is gone, and with it everyone who could hear it
    except (KafkaException, ValueError) as error:
        _say({"stored": [], "alarms": 0, "error": f"{type(error).__name__}: {error}", "done": True})


def _say(report: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(report) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
