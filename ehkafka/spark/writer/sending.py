"""One task: its rows are sent in their order, and it ends when the broker has written them all.

On an executor, in Spark's Python worker, on the thread that runs the task. The worker keeps the sender, with
its idempotent producer, for a later task.

The client reports only what is not written. So what was handed over is known to be written when the client
has nothing left: until then a window of portions is kept. If a message is refused for now, its client ends;
the next one gets all portions from the first that has a message which is not written. What is behind it
is sent again, too, although some of it may be written: a key's last value stays the last one.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import check_client_version, describe_error
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.events import ConnectionProblem
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, busy_codes, refused_error
from ehkafka.outputs.batch import ONE_BY_ONE, smaller_batches
from ehkafka.outputs.one_producer import LAST_ANSWERS_S, producer_of
from ehkafka.outputs.properties import PARTITIONERS, message_properties, output_bytes_max
from ehkafka.settings import Settings
from ehkafka.spark.engine.failures import as_text
from ehkafka.spark.kept import KeptClients
from ehkafka.spark.secrets import OWN_GROUP
from ehkafka.spark.writer.first_rows import FirstRows
from ehkafka.spark.writer.rows import (
    PORTION_BYTES,
    PORTION_ROWS,
    messages,
    of_messages,
    portions,
    topics,
    wrong_rows,
)
from ehkafka.wording import counted, ended, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.spark.writer.options import WriterOptions

# So many portions are kept for another client; then a task waits until all of them are written.
WINDOW_PORTIONS: Final = 100
POLL_S: Final = 0.05
# Topics change while a client is open. Not less: each question asks for all topics, maybe thousands.
KNOWN_S: Final = 30.0
# What brokers take to tell each other of a topic or partition is far less.
MISSING_S: Final = 2.0
# No report tells when the first rows of partitions are written, and all others wait for that.
FIRSTS_POLL_S: Final = 0.002
_ASK_S: Final = 5.0
# A broker that takes longer for an answer makes a task wait half a second more for a producer's id.
_HURRY_S: Final = 1.0
# Between two lines of the log about why rows wait. The client reports a reason every second.
LINE_S: Final = 10.0
# librdkafka goes on trying with a refused credential; a task need not for minutes.
REFUSED_S: Final = 10.0
_OF: Final = "rows"
_LOG = logging.getLogger("ehkafka.spark.writer")
_PROPERTIES: Final = {
    # `Patience` ends the wait, by what the broker writes meanwhile.
    "message.timeout.ms": 0,
    # A row that is written costs no call.
    "delivery.report.only.error": True,
    # As many as a window has, so a client never refuses a row for want of room.
    "queue.buffering.max.messages": WINDOW_PORTIONS * PORTION_ROWS,
    "queue.buffering.max.kbytes": 2_097_151,
}
# Nothing polls between two tasks, and statistics would pile up there.
_OF_TASKS: Final = {"statistics.interval.ms": 0}
# Those of an app that names nothing but what must be named: all else is the endpoint's.
_SETTINGS: Final = Settings(group=OWN_GROUP, start="earliest")


def write_rows(
    options: WriterOptions, frames: Iterator[pa.RecordBatch], *, partition: int, attempt: int
) -> str | None:
    """Return what the driver reports if rows never will be written; None: all are.

    `partition` is the frame's. Raises `EndpointError` if the broker writes nothing for too long.
    """
    if attempt:
        _LOG.warning(
            "Attempt %d for the frame's partition %d: its rows are sent again. Those that the attempt before"
            " has sent may be there twice.",
            attempt + 1,
            partition,
        )
    try:
        endpoint = options.endpoint.endpoint()
        with KEPT.used(options.endpoint, lambda: RowSender(endpoint, **_OF_TASKS)) as sender:
            sender.write(frames, options, partition)
    except TooLateError as late:
        raise EndpointError(str(late)) from None
    except EhkafkaError as refused:
        return as_text(refused)
    return None


class RowSender:
    """Sends the rows of one task after another, by one producer after another."""

    def __init__(self, endpoint: Endpoint, **more: object) -> None:
        """`more` are further properties of the producer."""
        check_client_version()
        self._busy = busy_codes(is_event_hubs=endpoint.is_event_hubs)
        self._bytes_max = output_bytes_max(endpoint, _SETTINGS)
        self._patience = Patience()
        self.producer = producer_of(
            lambda: {**message_properties(endpoint, _SETTINGS), **_PROPERTIES, **more},
            endpoint.credential,
            emit=self._patience.take,
            of=_OF,
            may_be_plain=False,
        )
        # Of the task: the topic of all rows, None: the column has it; where rows are, for people.
        self._topic: str | None = None
        self._where = ""
        # How many partitions topics have, as the broker last said, and until when that counts.
        self._partitions: dict[str, int] = {}
        self._known_until_s = 0.0
        # Portions by the numbers of their first rows. All rows before them are written.
        self._window: dict[int, pa.RecordBatch] = {}
        # The first row that the client has not; how many before it have no error and no place in its queue.
        self._row = self._written = 0
        partitioner = str(endpoint.chosen("partitioner") or PARTITIONERS[0])
        self._firsts = FirstRows(partitioner, self._partitions_of)
        # Of this client: how many errors it has reported, and the first portion with one; the error that
        # explains all others, with its message and portion.
        self._errors = 0
        self._refused_from: float = inf
        self._refusal: tuple[KafkaError, Any, int] | None = None

    def open(self, topic: str | None) -> None:
        """Open the first client."""
        self.producer.start(0.0)
        self._hurry(topic)

    def write(self, frames: Iterator[pa.RecordBatch], options: WriterOptions, partition: int) -> None:
        """Send a task's rows, and wait until they are written.

        Raises `EhkafkaError`; `TooLateError` where another attempt may find a broker that writes.
        """
        if self.producer.client is None:
            self.open(options.topic)  # whether the broker gives an id was asked on the driver
        self._patience.timeout_s = options.timeout_s
        self._patience.moved()  # however long the worker was idle
        self._topic, self._where = options.topic, f"of the frame's partition {partition}"
        self._row = self._written = rows = 0
        for frame in frames:
            if time.monotonic() >= self._known_until_s:
                self._forget()
            self.producer.serve(0.0)  # what else the client has to report counts as a message of it
            if not len(self.producer.client):
                self._patience.moved()  # nothing waits for the broker, however long the rows took to come
            batch = of_messages(frame)
            for row, kind, text in wrong_rows(batch, self._topic, self._bytes_max, self._partitions_of):
                raise kind(f"Row {rows + row + 1} {self._where} {text}")
            for start, portion in portions(batch):
                self._window[rows + start] = portion
                is_large = portion.nbytes > 2 * PORTION_BYTES  # of rows that are larger than the others
                self._send(waits=is_large or len(self._window) >= WINDOW_PORTIONS)
            rows += batch.num_rows
        self._send(waits=True)

    def _hurry(self, topic: str | None) -> None:
        # A broker's answer makes librdkafka ask for the producer's id, if there is a connection to more than
        # a bootstrap address, so two are needed; otherwise it asks half a second later (librdkafka 2.16).
        with suppress(KafkaException):
            for _ in range(2):
                self.producer.client.list_topics(topic, timeout=_HURRY_S)

    def _forget(self) -> None:
        self._partitions, self._known_until_s = {}, time.monotonic() + KNOWN_S
        self._firsts.forget()

    def _partitions_of(self, topic: str, partition: int = 0) -> int:
        """Return how many partitions a topic has, 0 if it does not exist; wait for an answer that tells.

        A broker that has not heard of the topic, or of this partition, is asked again for `MISSING_S`.
        """
        gives_up_s, wait_s = time.monotonic() + MISSING_S, 0.0
        while self._partitions.get(topic, 0) <= partition:
            self.producer.serve(wait_s)
            wait_s = POLL_S
            if problem := self._ask(topic):
                self._patience.check(f"Rows {self._where} wait", problem)
                gives_up_s = time.monotonic() + MISSING_S
            elif time.monotonic() >= gives_up_s:
                break
        return self._partitions.get(topic, 0)

    def _ask(self, topic: str) -> str | None:
        """Note how many partitions topics have; return why the answer does not tell that of this one."""
        try:
            # All topics: a question for one would make some brokers create it.
            there = self.producer.client.list_topics(timeout=_ASK_S).topics
        except KafkaException as failed:
            return describe_error(failed.args[0])
        self._partitions = {name: len(one.partitions) for name, one in there.items() if one.error is None}
        if topic not in there or self._partitions.get(topic):
            return None
        text, error = f"it reports no partitions of topic {topic!r}", there[topic].error
        return text if error is None else f"{text}: {describe_error(error)}"

    def _send(self, *, waits: bool) -> None:
        """Hand the window over. With `waits`, its rows are written then, and it is empty."""
        while self._refusal or self._row in self._window or (waits and len(self.producer.client)):
            if self._refusal:
                self._begin_again()
            elif self._row in self._window:
                self._hand_over(self._window[self._row])
            else:
                self._serve(POLL_S)
        if waits:
            self._window.clear()

    def _hand_over(self, portion: pa.RecordBatch) -> None:
        firsts, rows = self._firsts.split(messages(portion, self._topic), topics(portion, self._topic))
        if firsts:
            self._produce(firsts)
            while len(self.producer.client) and not self._refusal:
                self._serve(FIRSTS_POLL_S, ahead=len(firsts))
            if self._refusal:
                return
        self._produce(rows)
        if not self._refusal:
            self._row += portion.num_rows
            self._serve(0.0)

    def _produce(self, rows: Iterable[tuple[Any, ...]]) -> None:
        produce, report = self.producer.client.produce, partial(self._refuse, self._row)
        try:
            for topic, value, key, partition, headers in rows:
                produce(topic, value, key, partition, report, None, 0, headers)
        except KafkaException as failed:
            report(failed.args[0], None)

    def _refuse(self, first: int, error: KafkaError, message: Any) -> None:
        """Note that a message is not written, of the portion whose first row that is. Called in `poll`."""
        self._errors += 1
        self._refused_from = min(self._refused_from, first)
        if error.code() not in TAKEN_BACK:
            self.producer.failed(error)
        if self._refusal is None or self._refusal[0].code() in CONSEQUENCES:
            self._refusal = error, message, first

    def _serve(self, timeout_s: float, *, ahead: int = 0) -> None:
        """Run callbacks, and check that the broker writes; it has `ahead` rows of the next portion."""
        self.producer.serve(timeout_s)
        left = len(self.producer.client)
        written = self._row + ahead - self._errors - left
        # A client that gets no further than one before it makes no progress.
        if written > self._written:
            self._written = written
            self._patience.moved()
            self.producer.acknowledged()
        elif left:
            self._check(left)

    def _check(self, count: int) -> None:
        rows = f"{counted(count, 'row')} {self._where} {'waits' if count == 1 else 'wait'}"
        self._patience.check(rows, self.producer.problem)

    def _begin_again(self) -> None:
        """Open another client, which has nothing of the window, unless it would be refused the same."""
        client = self.producer.client
        # First: its last answers may explain more.
        self.producer.give_up(LAST_ANSWERS_S)
        assert self._refusal is not None
        is_fault, is_busy = self._prepare_next(*self._refusal), self._refusal[0].code() in self._busy
        # What it has not reported may be anywhere.
        if not len(client) and min(self._window) < self._refused_from:
            self._window = {at: one for at, one in self._window.items() if at >= self._refused_from}
            self._patience.moved()
        self._row, self._errors, self._refused_from, self._refusal = min(self._window), 0, inf, None
        self._forget()
        self.producer.renew(is_fault=is_fault, waits=is_busy)
        while self.producer.client is None:
            self._check(sum(one.num_rows for one in self._window.values()))
            time.sleep(min(POLL_S, self.producer.due_s()))
            self.producer.open_when_due()
        self._hurry(self._topic)

    def _prepare_next(self, error: KafkaError, message: Any, first: int) -> bool:
        """Tell whether the client was at fault, else the message was: then batches become smaller.

        Raises `EndpointError`, which names the row, if another client would be refused the same.
        """
        if error.fatal() or error.code() in CONSEQUENCES | self._busy:
            return True
        if refused_error(error).is_too_large and self.producer.batch_bytes != ONE_BY_ONE:
            self.producer.batch_bytes = smaller_batches(self.producer.batch_bytes)
            return False
        row, to = first, ""
        if message is not None:
            parts, to = (message.topic(), message.value(), message.key()), f" to topic {message.topic()!r}"
            rows = enumerate(messages(self._window[first], self._topic), first)
            row = next((row for row, one in rows if one[:3] == parts), first)
        raise EndpointError(f"Row {row + 1} {self._where} cannot be written{to}: {describe_error(error)}")


class TooLateError(EndpointError):
    """The broker wrote nothing for as long as a task may wait."""


class Patience:
    """How long the tasks of one producer wait while the broker writes nothing: each one for `timeout_s`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.timeout_s = 0.0
        self._reason: str | None = None
        # Since when the credential has been refused.
        self._refused_since_s: float | None = None
        # When the broker last wrote something, and when a line last reported that it does not.
        self._moved_s = self._logged_s = clock()

    def take(self, event: Event) -> None:
        """Take an event of the client: its last warning is the reason."""
        if isinstance(event, ConnectionProblem):
            self._reason = event.error.removeprefix(f"{_OF}: ")
            if event.code == "_AUTHENTICATION" and self._refused_since_s is None:
                self._refused_since_s = self._clock()
        elif event.level >= logging.WARNING:
            self._reason = event.sentence()

    def moved(self) -> None:
        """Begin to wait anew: the broker writes, or nothing waits for it."""
        self._moved_s = self._logged_s = self._clock()
        self._reason = self._refused_since_s = None

    def check(self, rows_wait: str, problem: str | None = None) -> None:
        """Log what waits, in words such as `3 rows wait`, at times; end it when that takes too long.

        `problem` explains more than what the client reported. Raises `TooLateError`, and `EndpointError` for
        a credential that is refused.
        """
        now_s = self._clock()
        waited_s = now_s - self._moved_s
        why = ended(problem or self._reason or "it does not answer")
        text = f"{rows_wait} for the broker, which has written nothing for {seconds(waited_s)}: {why}"
        refused_s = self._refused_since_s
        if refused_s is not None and now_s - refused_s >= min(REFUSED_S, self.timeout_s):
            raise EndpointError(f"{rows_wait} for a broker that refuses the credential: {why}")
        if waited_s >= self.timeout_s:
            raise TooLateError(
                f"{text} Spark tries the task again, and sends all of its rows again."
                " To let a task wait longer, raise deliveryTimeoutMs."
            )
        if now_s - self._logged_s >= LINE_S:
            self._logged_s = now_s
            _LOG.warning("%s", text)


KEPT: Final[KeptClients[RowSender]] = KeptClients(lambda one: one.producer.give_up(0.0))
