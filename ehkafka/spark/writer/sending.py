"""Sends portions of rows in their order, and waits until the broker has written them.

The client reports only what is not written. So what was handed over is known to be written when the client
has nothing left: until then a window of portions is kept. If a message is refused for now, its client ends;
the next one gets all portions from the first that has a message which is not written. What is behind it
is sent again, too, although some of it may be written: a key's last value stays the last one. One thread.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EndpointError
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, busy_codes, refused_error
from ehkafka.outputs.batch import ONE_BY_ONE, smaller_batches
from ehkafka.outputs.one_producer import LAST_ANSWERS_S
from ehkafka.wording import counted

if TYPE_CHECKING:
    from ehkafka.spark.writer.producers import WriterProducer
    from ehkafka.spark.writer.rows import Portion, Rules

# What a task keeps for another client, at the most; then it waits until all of it is written.
WINDOW_ROWS: Final = 200_000
WINDOW_BYTES: Final = 64 * 1_048_576
POLL_S: Final = 0.05


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, producer: WriterProducer, rules: Rules) -> None:
        self._one = producer.one
        self._patience = producer.patience
        self._rules = rules
        self._busy = busy_codes(is_event_hubs=producer.endpoint.is_event_hubs)
        self._window: list[Portion] = []
        # How many rows are known to be written.
        self.written = 0
        # Of the window's messages: those that this client has taken, those of them that it has reported, and
        # the most that any client has written. A client that gets no further is no progress.
        self._taken = self._reported = self._most = 0
        # Of this client, the first that explains all others: the error, its message, the portion.
        self._refusal: tuple[KafkaError, Any, Portion] | None = None

    def send(self, portion: Portion) -> None:
        """Hand rows over. Raises `EndpointError` if they, or rows before them, cannot be written."""
        self._window.append(portion)
        self._hand_over(portion)
        size = sum(one.batch.nbytes for one in self._window)
        if self._refusal is not None or self._rows() >= WINDOW_ROWS or size >= WINDOW_BYTES:
            self.drain()

    def drain(self) -> None:
        """Wait until all rows are written. Raises `EndpointError`."""
        while self._window:
            while self._refusal is None and len(self._one.client):
                self._serve(POLL_S)
            if self._refusal is None:
                self._let_go(len(self._window))
            else:
                self._begin_again(*self._refusal)

    def _rows(self) -> int:
        return sum(one.batch.num_rows for one in self._window)

    def _hand_over(self, portion: Portion) -> None:
        client = self._one.client
        if self._refusal is None and not len(client):
            self._patience.moved()  # nothing waits, however long the rows took to come
        portion.is_unwritten = False
        produce, report = client.produce, partial(self._take_report, portion)
        for topic, value, key, partition, headers in portion.messages():
            while self._refusal is None:
                try:
                    if headers:
                        produce(topic, value, key, partition, report, headers=headers)
                    else:
                        produce(topic, value, key, partition, report)
                except BufferError:
                    self._serve(POLL_S)
                except KafkaException as failed:
                    self._refuse(failed.args[0], None, portion)
                else:
                    self._taken += 1
                    break
        self._serve(0.0)

    def _take_report(self, portion: Portion, error: KafkaError, message: Any) -> None:
        """Note a message that is not written. Called inside `poll`."""
        self._reported += 1
        self._refuse(error, message, portion)

    def _refuse(self, error: KafkaError, message: Any, portion: Portion) -> None:
        portion.is_unwritten = True
        if error.code() not in TAKEN_BACK:
            self._one.failed(error)
        if self._refusal is None or self._refusal[0].code() in CONSEQUENCES:
            self._refusal = error, message, portion

    def _serve(self, timeout_s: float) -> None:
        """Run callbacks; note whether the broker writes. Raises `EndpointError` if it does not for long."""
        self._one.serve(timeout_s)
        left = len(self._one.client)
        written = self._taken - self._reported - left
        if written > self._most:
            self._most = written
            self._patience.moved()
            self._one.acknowledged()
        elif left:
            self._patience.check(self._waiting(left), self._one.problem)

    def _waiting(self, count: int) -> str:
        waits = "waits" if count == 1 else "wait"
        return f"{counted(count, 'row')} of the frame's partition {self._rules.frame_partition} {waits}"

    def _let_go(self, count: int) -> None:
        """Forget the window's first portions, which are written."""
        rows = sum(one.batch.num_rows for one in self._window[:count])
        del self._window[:count]
        self.written += rows
        self._taken = self._reported = 0
        self._most = max(0, self._most - rows) if self._window else 0
        if count:
            self._patience.moved()
            self._one.acknowledged()

    def _begin_again(self, error: KafkaError, message: Any, portion: Portion) -> None:
        """Send by another client what is not written. Raises `EndpointError` for what never will be."""
        client = self._one.client
        # First: its last answers may explain more.
        self._one.give_up(LAST_ANSWERS_S)
        error, message, portion = self._refusal or (error, message, portion)
        is_fault = self._prepare_next(error, message, portion)
        # What it has not reported may be anywhere.
        first = 0 if len(client) else [one.is_unwritten for one in self._window].index(True)
        self._let_go(first)
        self._refusal = None
        self._one.renew(is_fault=is_fault, waits=error.code() in self._busy)
        while self._one.client is None:
            self._patience.check(self._waiting(self._rows()), self._one.problem)
            time.sleep(min(POLL_S, self._one.due_s()))
            self._one.open_when_due()
        for one in self._window:
            one.is_unwritten = True
        for one in self._window:
            if self._refusal is None:
                self._hand_over(one)

    def _prepare_next(self, error: KafkaError, message: Any, portion: Portion) -> bool:
        """Tell whether the client was at fault, else the message was: then batches become smaller.

        Raises `EndpointError`, which names the row, if another client would be refused the same.
        """
        if error.fatal() or error.code() in CONSEQUENCES | self._busy:
            return True
        if refused_error(error).is_too_large and self._one.batch_bytes != ONE_BY_ONE:
            self._one.batch_bytes = smaller_batches(self._one.batch_bytes)
            return False
        row = None
        if message is not None:
            row = portion.row_of(message.topic(), message.value(), message.key())
        what = self._rules.name(portion.first if row is None else row)
        topic = "" if message is None else f" to topic {message.topic()!r}"
        raise EndpointError(f"{what} cannot be written{topic}: {describe_error(error)}")
