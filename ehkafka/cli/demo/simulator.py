"""The simulator: a process that produces readings as fast as it is allowed to, and reports what was stored.

A process of its own, so that it takes no processor time from the app that the demo measures. It stands for
somebody else's producer, so it uses the plain client. Down its pipe come orders, then limits (readings of
each partition that may be produced in all), then None: no more. The pipe's end ends it at once, so it never
outlives the demo. Up come reports.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import operator
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import Producer

from ehkafka import TopicPartition
from ehkafka.cli.demo.homes import World
from ehkafka.errors import EndpointError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError, Message

    from ehkafka.cli.demo.session import DemoPlan
    from ehkafka.telemetry import Snapshot
    from ehkafka.testing import CheckingHistory

# Records of each partition that may lie in the broker unread: a twentieth of the 5 MiB that the embedded one
# keeps, read or not. What the app has received is safe; it must not count here, or one slow home would hold
# back the readings of all others.
UNREAD_RECORDS_MAX: Final = 2_000
# Unfinished records, wherever they lie, above which the limits stay as they are. With the unread on top this
# stays below the app's backlog limit: a demo that is paused all the time shows pauses.
UNFINISHED_RECORDS_MAX: Final = 12_000
# Produced between two looks at the limits.
BATCH_RECORDS: Final = 100
# Idempotence keeps the order of a home's readings when the client sends again. A broker that does not take
# them must be noticed while somebody is watching. What goes wrong is reported, so nothing need be logged.
PRODUCER: Final = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 10_000, "log_level": 0}
REPORT_EVERY_S: Final = 0.05
FLUSH_S: Final = 15.0


class Feed:
    """The simulator as the session sees it, on the session's thread. Produces from the start."""

    def __init__(self, plan: DemoPlan, partitions: int, history: CheckingHistory) -> None:
        self._plan, self._history = plan, history
        self._passed = [0] * partitions
        # As it was reported: each partition's offsets, what went wrong, and whether there is more to come.
        self.stored: Mapping[int, range] = {}
        self.error: str | None = None
        self.done = False
        # When the first report came: with the first readings, before they are stored.
        self.began_s: float | None = None
        self.pipe, theirs = multiprocessing.Pipe()
        with theirs:  # closed here, so that its end is heard of
            self.process = subprocess.Popen(  # noqa: S603 - our own module in our own interpreter
                # -P: a file of the user's folder must not be imported in place of a module.
                [sys.executable, "-P", "-m", "ehkafka.cli.demo.simulator", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the demo; it then tells the simulator to stop
            )
        # By the pipe, for an address may come with credentials, and arguments are public.
        self.send((plan.endpoint.client_properties(), plan.topic, partitions, plan.records or float("inf")))
        self.send([UNREAD_RECORDS_MAX] * partitions)

    def send(self, order: object) -> None:
        """Give limits, or None to ask for no more readings."""
        with contextlib.suppress(ConnectionError):  # it is gone; `listen` says so
            self.pipe.send(order)

    def listen(self) -> None:
        """Take in the reports that have come."""
        while not self.done and self.pipe.poll():
            before = self.stored
            try:
                self.stored, self.error, self.done = self.pipe.recv()
            except (EOFError, ConnectionError):
                self.error, self.done = "its process ended without a word", True
            self.began_s = self.began_s or time.monotonic()
            for partition, stored in self.stored.items():
                known = len(before.get(partition, ()))
                self._history.produced(TopicPartition(self._plan.topic, partition), stored[known:])

    def allow(self, snapshot: Snapshot) -> None:
        """Let the simulator go on as far as the app has come."""
        for one in snapshot.partitions:
            number = one.partition.partition
            # Both are at most what was read: the first counts from the start of an assignment only.
            below = (one.watermark or 0) - self.stored.get(number, range(0)).start
            self._passed[number] = max(self._passed[number], one.received_records, below)
        if self.stored_records - snapshot.finished_records <= UNFINISHED_RECORDS_MAX:
            self.send([count + UNREAD_RECORDS_MAX for count in self._passed])

    @property
    def stored_records(self) -> int:
        """How many readings the broker has taken."""
        return sum(map(len, self.stored.values()))

    def close(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.wait()

    @property
    def failure(self) -> EndpointError | None:
        """What the simulator failed with, if it has."""
        what = f"The simulator could not produce to topic {self._plan.topic!r} on {self._plan.address}:"
        fix = "Check the topic and the rights to produce to it."
        return EndpointError(f"{what} {ended(self.error)} {fix}") if self.error is not None else None


def simulate(
    pipe: Connection, properties: dict[str, Any], topic: str, partitions: int, records_max: float
) -> None:
    """Be the simulator's process: produce until asked to stop, or until all records are stored."""
    world = World(partitions)
    stored: dict[int, range] = {}
    errors: list[str] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        if error is not None:
            errors.append(error.str())
        else:
            first = stored.get(partition, range(offset, offset))
            stored[partition] = range(first.start, first.stop + 1)

    def report(*, done: bool = False) -> None:
        pipe.send((stored, next(iter(errors), None), done))

    def produce(producer: Producer) -> None:
        produced, limits, report_s = [0] * partitions, [0] * partitions, 0.0
        while not errors and (left := records_max - sum(produced)) > 0:
            # All of a batch may fall into one partition.
            has_room = min(map(operator.sub, limits, produced)) >= BATCH_RECORDS
            if pipe.poll(0 if has_room else 0.01) and (limits := pipe.recv()) is None:
                break
            for _ in range(int(min(BATCH_RECORDS, left)) if has_room else 0):
                partition, key, value = world.next_reading()
                # The client's queue holds more than the limits let in.
                producer.produce(topic, value, key, partition, on_delivery=on_delivery)
                produced[partition] += 1
            producer.poll(0)
            if time.monotonic() >= report_s:
                report_s = time.monotonic() + REPORT_EVERY_S
                report()
        if missing := producer.flush(FLUSH_S):
            errors.append(f"{missing} readings were not acknowledged within {FLUSH_S:.0f} s")

    with contextlib.suppress(EOFError, ConnectionError):  # the demo is gone
        try:
            produce(Producer(properties | PRODUCER))
        except (KafkaException, ValueError) as error:
            errors.append(f"{type(error).__name__}: {error}")
        report(done=True)


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as to_demo:
        simulate(to_demo, *to_demo.recv())
