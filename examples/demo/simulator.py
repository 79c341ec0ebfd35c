"""The simulator: a process that produces as many readings as it is asked for, and answers what was stored.

A process of its own, so that it takes no processor time from the app that the demo measures. It stands for
another program's producer, so it uses the plain client. Down its pipe come orders, then numbers of readings;
up comes an answer to each. The pipe's end ends it at once, so it never outlives the demo.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import subprocess
import sys
import time
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.cimpl import Producer
from homes import make_readings

from ehkafka.errors import EndpointError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError, Message
    from session import DemoPlan

# Readings of one order, and of all that may be unfinished: 4 MB at 130 bytes each. The embedded broker keeps
# 5 MiB of each partition, read or not, so it drops nothing unread even if all lie in one. It is below the
# app's backlog limit, too: a demo that is paused shows only pauses.
ORDER_RECORDS: Final = 4_000
UNFINISHED_RECORDS_MAX: Final = 28_000
# Idempotence keeps the order of a home's readings when the client sends again. A broker that does not take
# them must be noticed while a person watches. What goes wrong is reported, so nothing need be logged.
PRODUCER: Final = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 10_000, "log_level": 0}
FLUSH_S: Final = 15.0


class Feed:
    """The simulator as the session sees it, on the session's thread."""

    def __init__(self, plan: DemoPlan) -> None:
        self._plan = plan
        self.ordered_records, self.left_records = 0, plan.records or sys.maxsize
        # As it was answered: each partition's offsets, and what went wrong.
        self.stored: Mapping[int, range] = {}
        self.failure: EndpointError | None = None
        # Answers to come, and when the first one came, which says that it is ready.
        self.unanswered, self.began_s = 1, 0.0
        self.pipe, theirs = multiprocessing.Pipe()
        with theirs:  # closed here, so that its end is noticed
            self.process = subprocess.Popen(  # noqa: S603 - this file in our own interpreter
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the demo, which then gives no more orders
            )
        # By the pipe, for an address may come with credentials, and arguments are public.
        self.pipe.send((plan.endpoint.client_properties(), plan.topic))

    @property
    def stored_records(self) -> int:
        """How many readings the broker has taken."""
        return sum(map(len, self.stored.values()))

    def listen(self) -> None:
        """Take in the answers that have come."""
        while self.unanswered and self.pipe.poll():
            try:
                self.stored, error = self.pipe.recv()
            except (EOFError, ConnectionError):
                error = "its process ended without a word"
            self.unanswered, self.began_s = self.unanswered - 1, self.began_s or time.monotonic()
            if error is not None:
                self.unanswered = 0
                self.failure = EndpointError(
                    f"The simulator could not produce to topic {self._plan.topic!r} on {self._plan.address}: "
                    f"{ended(error)} Check the topic and the rights to produce to it."
                )

    def order(self, finished_records: int) -> None:
        """Ask for more readings, while the app is close enough to the last of them."""
        while self.left_records and self.ordered_records - finished_records < UNFINISHED_RECORDS_MAX:
            number = min(ORDER_RECORDS, self.left_records)
            with contextlib.suppress(ConnectionError):  # it is gone; `listen` says so
                self.pipe.send(number)
            self.ordered_records += number
            self.left_records -= number
            self.unanswered += 1

    def close(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.wait()


def simulate(pipe: Connection, properties: dict[str, Any], topic: str) -> None:
    """Be the simulator's process: answer each order with all that is stored, until the pipe ends."""
    stored: dict[int, range] = {}
    errors: list[str | None] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        if error is not None:
            errors.append(error.str())
        else:
            first = stored.get(partition, range(offset, offset))
            stored[partition] = range(first.start, first.stop + 1)

    producer, readings = Producer(properties | PRODUCER), make_readings()
    with contextlib.suppress(EOFError, ConnectionError):  # the demo is gone
        while True:
            pipe.send((stored, next(iter(errors), None)))
            # The client's queue holds more than an order.
            for key, value in islice(readings, pipe.recv()):
                producer.produce(topic, value, key, on_delivery=on_delivery)
            if missing := producer.flush(FLUSH_S):
                errors.append(f"{missing} readings were not acknowledged within {FLUSH_S:.0f} s")


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as to_demo:
        simulate(to_demo, *to_demo.recv())
