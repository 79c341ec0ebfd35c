"""What a test holds of an app that runs in it: sends, waits, and sees what became of the records."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, UnfinishedError
from ehkafka.records import TopicPartition
from ehkafka.run.runtime import Runtime
from ehkafka.testing.in_test.advancing import advance
from ehkafka.testing.in_test.moved_clock import checked_seconds
from ehkafka.testing.in_test.topic_record import (
    DeadLetterRecord,
    HandledRecords,
    TopicRecord,
    dead_letter_of,
    handled_of,
    topic_record,
)
from ehkafka.testing.in_test.unfinished import unfinished_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from ehkafka.app.app import App
    from ehkafka.embedded.broker import EmbeddedBroker
    from ehkafka.endpoint import Endpoint
    from ehkafka.testing.in_test.moved_clock import MovedClock
    from ehkafka.testing.in_test.noted import NotedHistory
    from ehkafka.testing.in_test.sending import Headers, Sender
    from ehkafka.testing.in_test.topic_logs import TopicLogs

WAIT_S = 10.0
# Between two looks at whether the app has ended.
_CHECK_S = 0.05
_ASYNC_CHECK_S = 0.005


class TestedApp:
    """An app that runs in a test. For the thread that runs the test.

    `app` is the app itself, `broker` the embedded broker with its faults, `endpoint` what a client of the
    test's own may use.
    """

    # pytest collects classes by their names.
    __test__ = False

    def __init__(
        self,
        app: App,
        endpoint: Endpoint,
        *,
        topics: Iterable[str],
        noted: NotedHistory,
        clock: MovedClock,
        sender: Sender,
        logs: TopicLogs,
    ) -> None:
        self.app = app
        self.endpoint = endpoint
        self._clock = clock
        self._noted = noted
        self._sender = sender
        self._logs = logs
        self._handlers = {topic: spec.name for spec in app._specs for topic in spec.topics}  # noqa: SLF001 - made for this
        # Topics that the test has sent to or read, whose records are wanted after the end as well.
        self._topics = set(topics)
        self._is_closed = False
        # What ended the app, once the test was given it.
        self.reported: EhkafkaError | None = None

    @property
    def broker(self) -> EmbeddedBroker:
        """The broker: `fail_next`, `delay_next` and its other faults."""
        broker = self.endpoint.embedded_broker
        assert broker is not None  # the endpoint of a test is an embedded one
        return broker

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | int | None = None,
    ) -> None:
        """Send one record; a topic that is not there is made. `wait` waits until it is handled.

        - `topic` (required): any; one that no handler takes is for `outputs` alone.
        - `value` (required): text, bytes, None, or a dict, list, dataclass or model, which is sent as JSON.
        - `key` (default `None`): text or bytes.
        - `headers` (default `None`): a dict, or a list of (name, value).
        - `partition` (default `None`): its number. `None`: the key decides.
        - `timestamp` (default `None`): a datetime, or milliseconds since 1970. `None`: now.

        Raises `ConfigurationError` for what cannot be sent.
        """
        self._must_run("send")
        if topic not in self._topics:  # each question costs a millisecond
            self.endpoint.prepare_topics([topic])
            self._topics.add(topic)
        if partition is not None:
            self._check_partition(topic, partition)
        self._sender.send(topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp)

    @property
    def handled(self) -> HandledRecords:
        """The records that handlers have finished, in that order; `of(topic)` and `by(handler)` choose."""
        return self._ended("finished")

    @property
    def skipped(self) -> HandledRecords:
        """The records that were skipped, by their handler or by its failure policy."""
        return self._ended("skipped")

    def _ended(self, outcome: str) -> HandledRecords:
        records: dict[TopicPartition, dict[int, Any]] = {}
        found = HandledRecords()
        for end in self._noted.ends():
            if end.outcome != outcome:
                continue
            if end.partition not in records:
                records |= self._by_offset(end.partition.topic)
            record = records.get(end.partition, {}).get(end.offset)
            if record is None:  # the log has grown since it was read
                records |= self._by_offset(end.partition.topic)
                record = records.get(end.partition, {}).get(end.offset)
            if record is None:
                raise EndpointError(
                    f"{end.partition}@{end.offset} was handled, and its log does not hold it any more. Ask "
                    "for the handled records before you delete any."
                )
            found.append(handled_of(record, self._handlers[end.partition.topic], end.attempt))
        return found

    def outputs(self, topic: str) -> list[TopicRecord]:
        """Return all records of a topic, from all senders. Raises `TopicNotFoundError`.

        What `app.producer` was given by now is waited for.

        - `topic` (required): any of this broker's.
        """
        return [topic_record(record) for record in self._read(topic)]

    def letters(self, topic: str) -> list[DeadLetterRecord]:
        """Return the dead letters of a topic, each with its `reason`. Raises `TopicNotFoundError`.

        - `topic` (required): the one that `DeadLetter(to=…)` names.
        """
        return [dead_letter_of(record) for record in self._read(topic)]

    def close(self, *, keep: bool) -> None:
        """Inner: let go of the broker; with `keep`, read all topics first, for looks after its end."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if keep:
                self._sender.flush()
                self._topics |= self._sent_topics()
                for topic in sorted(self._topics):
                    # A fault of the test keeps this topic away: a later call of `outputs` is refused.
                    with contextlib.suppress(EndpointError):
                        self._logs.read(topic)
        finally:
            self._sender.close()
            self._logs.close()

    def _must_run(self, what: str) -> None:
        if self._is_closed:
            raise ConfigurationError(f"{what}: this test's run is over: call it inside of the block.")

    def _read(self, topic: str) -> list[Any]:
        if not self._is_closed:
            self._sender.flush()
            self._topics |= self._sent_topics()
        records = self._logs.read(topic)
        self._topics.add(topic)
        return records

    def _sent_topics(self) -> set[str]:
        """Return the topics that `app.producer` has sent to, once what it was given is there."""
        run = self.app.current_run
        if not isinstance(run, Runtime):
            return set()
        run.sending.messages.flush(WAIT_S)
        return set(run.sending.messages.topics)

    def _by_offset(self, topic: str) -> dict[TopicPartition, dict[int, Any]]:
        found: dict[TopicPartition, dict[int, Any]] = {}
        for record in self._logs.read(topic):
            found.setdefault(TopicPartition(topic, record.partition()), {})[record.offset()] = record
        return found

    def _check_partition(self, topic: str, partition: int) -> None:
        count = self._logs.count(topic)
        if isinstance(partition, bool) or not isinstance(partition, int) or not 0 <= partition < count:
            raise ConfigurationError(
                f"send({topic!r}, …): partition={partition!r}: the topic has the partitions 0 to "
                f"{count - 1}. run(app, topics={{{topic!r}: …}}) makes it with more."
            )

    def _waits(self, timeout_s: float) -> Iterator[dict[TopicPartition, int]]:
        """Yield what is not committed yet, for as long as there is anything. Raises what `wait` raises."""
        ends_s = time.monotonic() + _checked_timeout_s(timeout_s)
        self._must_run("wait")
        self._sender.flush()
        while True:
            ends = self._logs.ends(self.app.topics)
            while not self._noted.wait_for_commit(ends, 0.0):
                self._check_running(ends)
                if time.monotonic() >= ends_s:
                    raise TimeoutError(self._in_vain(ends, timeout_s))
                yield ends
            self._raise_failure()
            if self._logs.ends(self.app.topics) == ends:
                return

    def _advance(self, seconds: float) -> None:
        seconds = checked_seconds(seconds, self._clock.left_s())
        self._must_run("advance")
        self._sender.flush()
        self._raise_failure()
        run = self.app.current_run
        assert isinstance(run, Runtime)
        advance(run, self._clock, seconds, ends=self._logs.ends(self.app.topics))
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure = self.app.current_run.failure
        if failure is not None:
            self.reported = failure
            raise failure

    def _check_running(self, ends: dict[TopicPartition, int]) -> None:
        self._raise_failure()
        if self.app.state in ("running", "stopping"):
            return
        self._raise_failure()  # it may have come just before the end
        if self._noted.wait_for_commit(ends, 0.0):
            return
        raise UnfinishedError(
            "The app has stopped by itself before all records were handled and committed:\n"
            f"{unfinished_text(self.app, ends, self._noted.committed())}"
        )

    def _in_vain(self, ends: dict[TopicPartition, int], timeout_s: float) -> str:
        return (
            f"Not all records are handled and committed after {timeout_s:g} s:\n"
            f"{unfinished_text(self.app, ends, self._noted.committed())}\n"
            "A retry or a deadline in the future comes with advance(seconds); a handler that takes longer "
            "needs wait(timeout_s=…)."
        )


class AppTest(TestedApp):
    """An app that runs in a test, for the thread that runs the test. Made by `ehkafka.testing.run`."""

    def wait(self, timeout_s: float = WAIT_S) -> None:
        """Wait until all records of the handlers' topics are handled and committed.

        Those that handlers have sent to each other's topics are among them.

        - `timeout_s` (seconds, default `10.0`): the longest wait, 0 or more.

        Raises what ended the app, such as a `HandlerFailedError` with the handler's own error as its cause;
        `UnfinishedError` where it ended before all was handled; and `TimeoutError`, which names each key that
        is not done and what it waits for.
        """
        for ends in self._waits(timeout_s):
            self._noted.wait_for_commit(ends, min(_CHECK_S, timeout_s))

    def advance(self, seconds: float) -> None:
        """Move the app's clock: retries, deadlines, deferrals, rates, commits, batches and the stop go by it.

        What was sent is received and tried first; then the clock goes from one thing that is due to the next,
        so that several attempts of a record may come in one call. A handler that runs for longer than a
        second of real time continues in real time, which counts as well. After ten seconds of it, what is
        left passes in one step. Timers of the client library (sessions, connections) stay real, and so does
        `time.sleep` in a handler; `asyncio.sleep` goes by this clock.

        - `seconds` (seconds, required): by how much, 0 to 100 years. Raises `ConfigurationError` for others.

        Raises also what ended the app.
        """
        self._advance(seconds)


class AsyncAppTest(TestedApp):
    """The same for a test on an event loop. Made by `ehkafka.testing.arun`.

    `wait` and `advance` are awaited; all else takes milliseconds, as in the plain one.
    """

    async def wait(self, timeout_s: float = WAIT_S) -> None:
        """Wait as `AppTest.wait` does, and raise what it raises; the loop continues.

        Arguments are those of `AppTest.wait`.
        """
        for _ in self._waits(timeout_s):
            await asyncio.sleep(_ASYNC_CHECK_S)

    async def advance(self, seconds: float) -> None:
        """Move the app's clock as `AppTest.advance` does. The test's own loop keeps its time.

        Arguments are those of `AppTest.advance`.
        """
        await asyncio.to_thread(self._advance, seconds)


def _checked_timeout_s(timeout_s: float) -> float:
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool)
    if not is_number or not math.isfinite(timeout_s) or timeout_s < 0:
        raise ConfigurationError(f"wait(timeout_s={timeout_s!r}): give seconds, 0 or more.")
    return timeout_s
