"""The sender: hands what is in the book to a producer, on `ehkafka-outputs`, and lets go of what is safe.

One thread sends, polls and decides, so that order needs no lock: what was made earlier goes out earlier. A
refused output ends its producer (see `properties`); what is unanswered then goes out again by the next one,
in its old order, and the refused one goes alone by a second producer until somebody decides on it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, describe
from ehkafka.events import OutputProblem
from ehkafka.outputs.answered import Answered
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, busy_codes
from ehkafka.outputs.batch import OutputBatch, SomeSentError
from ehkafka.outputs.bundle import Bundle
from ehkafka.outputs.first_answers import FirstAnswers
from ehkafka.outputs.refused import BUSY_POLL_S, RefusedOutputs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.book import OutputBook
    from ehkafka.outputs.bundle import Apart
    from ehkafka.outputs.claim import Output
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.refused import Judge

IDLE_WAIT_S: Final = 0.5
# What a producer that is given up gets for answers that are on their way.
LAST_ANSWERS_S: Final = 2.0


class OutputSender:
    """Owns both producers. `start`, `end` and `stop` from other threads; all else happens on its own."""

    def __init__(
        self,
        book: OutputBook,
        producer: OneProducer,
        make_second: Callable[[], OneProducer],
        *,
        judge_of: Callable[[Output], Judge],
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        busy: Collection[int] = busy_codes(is_event_hubs=False),
        at_once: bool = True,
        by_key: bool = True,
    ) -> None:
        """`clock` is the one by which a refused output waits for its next try.

        `busy` are errors by which the broker throttles: the same goes out again later, and nobody is asked.
        `at_once`: one report may stand for a batch, see `properties.may_report_at_once`; `by_key`: all of
        a key goes to one partition.
        """
        self._at_once = at_once
        self._book = book
        self._busy = busy
        self._producer = producer
        self._emit = emit
        self._on_death = on_death
        self._wake = threading.Event()
        self._ends_s: float | None = None
        # The producer stays open at the end, for whoever is its next owner. Set before `_ends_s`.
        self._keeps_producer = False
        # Epochs that have ended: each is set once nothing of theirs is with a producer. Appended by the poll
        # thread.
        self._purges: deque[threading.Event] = deque()
        # The sender's thread only.
        self._queue: deque[Output | Bundle] = deque()
        self._in_flight: set[Output | Bundle] = set()
        self._answered = Answered()
        self._first_answers = FirstAnswers(by_key=by_key)
        self._refused = RefusedOutputs(
            book,
            make_second,
            queue=self._queue,
            in_flight=self._in_flight,
            first_answers=self._first_answers,
            judge_of=judge_of,
            emit=emit,
            wake=self._wake.set,
            clock=clock,
            busy=busy,
        )
        self._refusals = self._refused.refusals
        # An output of the main producer was refused, which ends it: no fault of its own.
        self._has_refused = False
        # An answer did not say where its output is: librdkafka concludes from a later one that it is safe.
        # Where a broker does not look at sequence numbers that is wrong: from then on no answer counts.
        self._is_in_doubt = False
        # The broker throttles by refusals: the next producer, with all of it, waits.
        self._is_throttled = False
        self._thread = threading.Thread(target=self._main, name="ehkafka-outputs", daemon=True)
        book.wake = self._wake.set

    def start(self) -> None:
        """Open the producer, unless it is, and start the thread.

        Raises `ConfigurationError` or `EndpointError`.
        """
        if self._producer.client is None:
            self._producer.start()
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether its thread still runs. From any thread."""
        return self._thread.is_alive()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return thread is self._thread

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it. From any thread."""
        problem = self._producer.problem
        count = self._book.count()
        return f"{count} outputs are not acknowledged: {problem}" if problem and count else None

    def end(self, epochs: Iterable[Epoch], timeout_s: float) -> None:
        """Let nothing be sent any more for epochs that have ended. Poll thread; waits so long until it is so.

        Else what is left in a producer's queue could come behind what the partition's next owner sends.
        """
        if not self._book.end(epochs) or not self._thread.is_alive():
            return
        done = threading.Event()
        self._purges.append(done)
        self._wake.set()
        done.wait(timeout_s)

    def stop(self, timeout_s: float, *, keeps_producer: bool = False) -> int:
        """Stop, at most after so many seconds; return how many outputs are not acknowledged.

        With `keeps_producer` the producer stays open if nothing of this sender is left in it: see `client`.
        """
        self._keeps_producer = keeps_producer
        self._ends_s = time.monotonic() + timeout_s
        self._book.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s + 1.0)
        return self._book.count()

    def _main(self) -> None:
        is_spotless = False
        try:
            while self._ends_s is None or (self._book.count() and time.monotonic() < self._ends_s):
                self._turn()
            is_spotless = not (self._in_flight or self._producer.is_lost)
        except BaseException as error:  # outputs would wait for ever, and nobody would know
            self._on_death(error)
        finally:
            if not (self._keeps_producer and is_spotless):
                self._producer.give_up(0.0, 0.1)
            self._refused.close()
            while self._purges:
                self._purges.popleft().set()

    def _turn(self) -> None:
        producer = self._producer
        self._queue.extend(self._book.take_new())
        if self._purges:
            self._purge()
        if producer.is_lost or self._is_throttled:
            self._renew(is_fault=True)
        elif self._first_answers.forget_old(self._in_flight):
            self._renew(is_fault=False)
        if producer.client is None:
            self._open_next()
        if producer.client is not None:
            self._send()
        producer.serve(BUSY_POLL_S if self._in_flight else 0.0)
        self._take_answers()
        if self._refusals:
            self._refused.go_on()
        if not self._in_flight and not producer.is_lost:
            self._book.sleeps = True
            if not self._book.has_new():
                self._wake.wait(self._patience_s())
            self._book.sleeps = False
            self._wake.clear()

    def _patience_s(self) -> float:
        if self._purges or self._refused.has_decisions or self._ends_s is not None:
            return BUSY_POLL_S
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        return BUSY_POLL_S if self._refusals or self._queue else IDLE_WAIT_S

    def _purge(self) -> None:
        done = [self._purges.popleft() for _ in range(len(self._purges))]
        self._refused.purge()
        for bundle in [one for one in self._queue if isinstance(one, Bundle) and one.is_dropped]:
            self._take_apart(bundle)
        # One that is lost may hold what is not noted as on its way.
        if self._producer.is_lost or any(output.is_dropped for output in self._in_flight):
            self._renew(is_fault=self._producer.is_lost)
        for one in done:
            one.set()

    def _renew(self, *, is_fault: bool) -> None:
        """Give the producer up; what it did not answer is sent by the next one, before all that is new."""
        self._producer.give_up(LAST_ANSWERS_S)
        # The answers that came with it, which say nothing of the next one, but perhaps what ended this one.
        self._take_answers(is_over=True)
        self._producer.renew(is_fault=is_fault and not self._has_refused, waits=self._is_throttled)
        self._has_refused = self._is_throttled = self._is_in_doubt = False
        self._in_flight.clear()
        self._answered = Answered()
        self._refusals.forget_waiting()
        self._first_answers.forget()
        # The book is the truth: all of it again, in the order of its making.
        self._queue.clear()
        self._queue.extend(self._book.take_all())

    def _open_next(self) -> None:
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            self._emit(OutputProblem(str(failed), self._producer.due_s()))

    def _send(self) -> None:
        queue, refusals, holds = self._queue, self._refusals, self._first_answers.holds
        while queue:
            output = queue[0]
            if isinstance(output, OutputBatch):
                if not self._send_batch(output):
                    return
                continue
            if isinstance(output, Bundle):
                self._divide(output)
                continue
            if output.is_suspect and not output.is_dropped:
                refusals.add(output, _SUSPECT, 0.0)
            elif output.is_dropped or (refusals and refusals.blocks(output)) or holds(output):
                pass
            elif not self._send_single(output):
                return
            queue.popleft()

    def _send_single(self, output: Output) -> bool:
        """Send it, or have it refused; False: there is no room, or no producer any more."""
        output.answered = self._answered
        given: dict[str, Any] = {} if output.headers is None else {"headers": output.headers}
        partition = self._first_answers.partition(output)
        place = output.topic, output.value, output.key, partition
        try:
            self._producer.client.produce(*place, output, **given)
        except BufferError:
            return False  # what is on its way makes room; it is asked for again
        except KafkaException as failed:
            if partition != output.partition and failed.args[0].code() == _UNKNOWN_PARTITION:
                self._first_answers.forget_partitions(output.topic)
                return self._first_answers.holds(output) or self._send_single(output)
            self._not_taken(output, failed.args[0])
            return not self._producer.is_lost
        except Exception as failed:  # headers may hold anything
            self._refuse(output, describe(failed))
        else:
            self._in_flight.add(output)
        return True

    def _divide(self, bundle: Bundle) -> None:
        """Put in the place of the first in the queue what goes together, and what goes alone."""
        partitions = self._first_answers.partitions(bundle.topic, bundle.keys)
        if self._refusals and (blocked := self._refusals.keys(bundle.topic)):
            pairs = zip(bundle.keys, partitions, strict=True)
            partitions = [None if key in blocked else partition for key, partition in pairs]
        self._queue.popleft()
        self._queue.extendleft(reversed(self._book.divide(bundle, partitions)))

    def _send_batch(self, batch: OutputBatch) -> bool:
        """Send the first in the queue, or put what it is made of in its place; False: there is no room."""
        blocked = self._refusals.keys(batch.topic) if self._refusals else ()
        if batch.is_dropped or (blocked and not blocked.isdisjoint(batch.keys)):
            self._take_apart(batch)
            return True
        is_full = False
        try:
            batch.send(self._producer.client, self._answered, at_once=self._at_once)
        except SomeSentError:
            # Nobody would hear what becomes of it: all goes again.
            self._producer.failed(KafkaError(KafkaError._FATAL, _NO_REPORT))  # noqa: SLF001
            return False
        except Exception as failed:  # whatever it is: the one output that it is about raises it once more
            is_full = isinstance(failed, BufferError)
            rest = self._book.cut(batch)
            if rest is None:
                if not is_full:
                    self._take_apart(batch)
                return not is_full
            self._queue.popleft()
            self._queue.appendleft(rest)
            if not is_full:
                self._take_apart(rest)
        else:
            self._queue.popleft()
        self._in_flight.add(batch)
        return not is_full

    def _take_apart(self, bundle: Bundle) -> None:
        self._note_apart(self._book.take_apart(bundle))

    def _note_apart(self, apart: Apart) -> None:
        self._in_flight.discard(apart.bundle)
        self._in_flight.update(apart.sent)
        self._replace(apart.bundle, apart.rest)

    def _replace(self, bundle: Bundle, by: Sequence[Output | Bundle]) -> None:
        queue = self._queue
        if bundle in queue:
            place = queue.index(bundle)
            queue.rotate(-place)
            queue.popleft()
            queue.extendleft(reversed(by))
            queue.rotate(place)

    def _not_taken(self, output: Output, error: KafkaError) -> None:
        if error.code() in CONSEQUENCES:
            self._producer.failed(error)  # lost: what is in the book is sent again
        else:
            self._refuse(output, describe_error(error))

    def _refuse(self, output: Output, error: str) -> None:
        self._first_answers.not_taken(output)
        self._refusals.add(output, error, 0.0)

    def _take_answers(self, *, is_over: bool = False) -> None:
        if not self._answered:
            return
        for apart in self._answered.take_apart():
            self._note_apart(apart)
        safe = self._answered.take_safe()
        self._in_flight.difference_update(safe)
        if self._is_in_doubt:
            safe = []
        for output, error, offset in self._answered.take_others():
            self._in_flight.discard(output)
            if error is not None:
                self._take_error(output, error, is_over=is_over)
                continue
            self._is_in_doubt |= offset is None
            if not self._is_in_doubt:
                safe.append(output)
        if safe:
            self._producer.acknowledged()
            self._book.settle(safe)
            self._queue.extendleft(reversed(self._first_answers.acknowledged(safe)))
        if self._is_in_doubt and not is_over:
            self._producer.failed(KafkaError(KafkaError._FATAL, _IN_DOUBT))  # noqa: SLF001

    def _take_error(self, output: Output, error: KafkaError, *, is_over: bool) -> None:
        if error.code() in CONSEQUENCES:
            if not (is_over or error.code() in TAKEN_BACK):
                self._producer.failed(error)
        elif error.code() in self._busy:
            # Of the message it says nothing, so the whole request goes out again: one by one would be
            # more requests for a broker that wants fewer.
            self._is_throttled = True
            self._producer.failed(error)
        else:
            if error.code() == _UNKNOWN_PARTITION:
                self._first_answers.forget_partitions(output.topic)
            # Of a dropped one, too: its producer has ended all the same.
            self._has_refused = output.is_suspect = True
            if not output.is_dropped:
                self._refusals.add(output, describe_error(error), 0.0)


_SUSPECT = "its batch was refused"
_UNKNOWN_PARTITION: Final = KafkaError._UNKNOWN_PARTITION  # noqa: SLF001 - librdkafka's own codes
_NO_REPORT = "the producer took only some of a batch"
_IN_DOUBT = "an output counts as written because a later one is, and the broker did not say where it is"
