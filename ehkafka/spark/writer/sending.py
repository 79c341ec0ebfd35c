"""One task: its rows are sent in their order, and it ends when the broker has written them all.

On an executor, in Spark's Python worker, on the thread that runs the task. What another attempt would be
refused again is reported to the driver, which ends the query with it: a failed task would be repeated.

The client reports only what is not written. So what was handed over is known to be written when the client
has nothing left: until then a window of portions is kept. If a message is refused for now, its client ends;
the next one gets all portions from the first that has a message which is not written. What is behind it
is sent again, too, although some of it may be written: a key's last value stays the last one.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, busy_codes, refused_error
from ehkafka.outputs.batch import ONE_BY_ONE, smaller_batches
from ehkafka.outputs.one_producer import LAST_ANSWERS_S
from ehkafka.outputs.properties import output_bytes_max
from ehkafka.spark.engine.failures import as_text
from ehkafka.spark.writer.patience import LOG, TooLateError
from ehkafka.spark.writer.producers import KEPT, SETTINGS, WriterProducer
from ehkafka.spark.writer.rows import Rules, portions
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ehkafka.spark.writer.options import WriterOptions
    from ehkafka.spark.writer.rows import Portion

# What a task keeps for another client, at the most; then it waits until all of it is written.
WINDOW_ROWS: Final = 200_000
WINDOW_BYTES: Final = 64 * 1_048_576
POLL_S: Final = 0.05
# Nothing polls between two tasks, and statistics would pile up there.
_OF_TASKS: Final = {"statistics.interval.ms": 0}


def write_rows(
    options: WriterOptions,
    topic: str | None,
    batches: Iterator[pa.RecordBatch],
    *,
    partition: int,
    attempt: int,
) -> tuple[int, str | None]:
    """Return how many rows are written, and what the driver reports if the others never will be.

    `topic` is that of all rows, None where a column has it; `partition` is the frame's. Raises
    `EndpointError` if the broker writes nothing for too long.
    """
    if attempt:
        LOG.warning(
            "Attempt %d for the frame's partition %d: its rows are sent again. Those that the attempt before"
            " has sent may be there twice.",
            attempt + 1,
            partition,
        )
    try:
        return _written(options, topic, batches, partition), None
    except TooLateError as late:
        raise EndpointError(str(late)) from None
    except EhkafkaError as refused:
        return 0, as_text(refused)


def _written(
    options: WriterOptions, topic: str | None, batches: Iterator[pa.RecordBatch], partition: int
) -> int:
    endpoint = options.endpoint.endpoint()
    with KEPT.used(options.endpoint, lambda: WriterProducer(endpoint, **_OF_TASKS)) as producer:
        producer.begin(options.timeout_s)
        rules = Rules(topic, output_bytes_max(endpoint, SETTINGS), partition, producer.partitions_of)
        sending = RowSender(producer, rules)
        rows = 0
        for batch in batches:
            for portion in portions(batch, rows, rules):
                sending.send(portion)
            rows += batch.num_rows
        sending.drain()
        return sending.written


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, producer: WriterProducer, rules: Rules) -> None:
        self._one = producer.one
        self._patience = producer.patience
        self._rules = rules
        self._busy = busy_codes(is_event_hubs=producer.endpoint.is_event_hubs)
        self._window: list[Portion] = []
        self._rows = self._bytes = 0
        # How many rows are known to be written.
        self.written = 0
        # Of the window's messages: those that this client has taken, those of them that it has reported, and
        # the most that any client has written. A client that gets no further is no progress.
        self._taken = self._reported = self._most = 0
        # Of this client, the first that explains all others: the error, its message, the portion.
        self._refusal: tuple[KafkaError, Any, Portion] | None = None

    def send(self, portion: Portion) -> None:
        """Hand rows over. Raises `EndpointError` if they, or rows before them, cannot be written."""
        self._one.serve(0.0)  # what else the client has to say counts as a message of it
        if not len(self._one.client):
            self._patience.moved()  # nothing waits, however long the rows took to come
        self._window.append(portion)
        self._rows += portion.batch.num_rows
        self._bytes += portion.batch.nbytes
        self._hand_over(portion)
        if self._refusal is not None or self._rows >= WINDOW_ROWS or self._bytes >= WINDOW_BYTES:
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

    def _hand_over(self, portion: Portion) -> None:
        portion.is_unwritten = False
        produce, report = self._one.client.produce, partial(self._take_report, portion)
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
        self._bytes -= sum(one.batch.nbytes for one in self._window[:count])
        self._rows -= rows
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
            self._patience.check(self._waiting(self._rows), self._one.problem)
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
