"""The sender: hands what is in the book to a producer, on `ehkafka-outputs`, and lets go of what is safe.

One thread sends, polls and decides, so that order needs no lock: what was made earlier goes out earlier. A
refused output ends its producer (see `properties`); what is unanswered then goes out again by the next one,
in its old order, and the refused one goes alone by a second producer until somebody decides on it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, describe
from ehkafka.events import OutputProblem
from ehkafka.outputs.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ehkafka.events import Event
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.outputs.book import OutputBook
    from ehkafka.outputs.claim import Output
    from ehkafka.outputs.refusals import Refusal

    # Given a refused output, why, which attempt that was, and what to call once it is decided that it is not
    # needed any more. Returns the seconds until the next try; None: it is decided, or will be.
    Judge = Callable[[Output, "OutputRefusedError", int, Callable[[], None]], float | None]

# While outputs are on their way: how long a new one may wait for the producer's next turn.
BUSY_POLL_S: Final = 2e-3
IDLE_WAIT_S: Final = 0.5
# What a transient failure of the second producer waits for.
AGAIN_S: Final = 0.5
# What a producer that is given up gets for answers that are on their way.
LAST_ANSWERS_S: Final = 2.0
# What the end of an epoch waits for a producer that is given up: its last answers, and the purge.
PURGED_S: Final = 6.0
# These say nothing of the message itself: something else has ended its producer, or it was taken back.
_CONSEQUENCES = {
    KafkaError._FATAL,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    KafkaError._GAPLESS_GUARANTEE,  # noqa: SLF001
    KafkaError._PURGE_QUEUE,  # noqa: SLF001
    KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    KafkaError._FENCED,  # noqa: SLF001
    # The id or its sequence is not known any more: another producer is needed.
    *(45, 46, 47, 49, 59),
}


class OutputRefusedError(Exception):
    """The broker refuses an output for good."""


class OneProducer(Protocol):
    """One producer at a time; `recovery.letters.producer` has it for dead letters and outputs alike."""

    client: Any

    def start(self, timeout_s: float = ..., /) -> None:
        """Open the first producer, and wait for its id."""

    def serve(self, timeout_s: float, /) -> None:
        """Let callbacks through."""

    def renew(self, *, is_fault: bool = ...) -> None:
        """Give it up; the next one is opened as soon as that is of use, at once where it is no fault."""

    def open_when_due(self) -> None:
        """Open the next one if its time has come. Raises `EhkafkaError`."""

    def give_up(self, answers_s: float, purge_s: float = ..., /) -> None:
        """Take back what is not answered."""

    def acknowledged(self) -> None:
        """Note that a message is safe."""

    def failed(self, error: KafkaError, /) -> None:
        """Note an error that is not the message's."""

    def due_s(self) -> float:
        """Return in how many seconds the next one is opened."""

    @property
    def is_lost(self) -> bool:
        """Tell whether it is of no use any more."""

    @property
    def problem(self) -> str | None:
        """Why nothing is acknowledged."""


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
    ) -> None:
        """`clock` is the one by which a refused output waits for its next try."""
        self._book = book
        self._clock = clock
        self._producer = producer
        self._make_second = make_second
        self._judge_of = judge_of
        self._emit = emit
        self._on_death = on_death
        self._wake = threading.Event()
        self._ends_s: float | None = None
        # The producer stays open at the end, for whoever is its next owner. Set before `_ends_s`.
        self._keeps_producer = False
        # Epochs that have ended: each is set once nothing of theirs is with a producer. Appended by the poll
        # thread.
        self._purges: deque[threading.Event] = deque()
        # Decided by others, such as whoever wrote a letter.
        self._decided: deque[Refusal] = deque()
        # The sender's thread only.
        self._queue: deque[Output] = deque()
        self._in_flight: set[Output] = set()
        self._answers: list[tuple[Output, KafkaError | None]] = []
        self._refusals = Refusals()
        # An output of the main producer was refused, which ends it: no fault of its own.
        self._has_refused = False
        self._second: OneProducer | None = None
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

    def end(self, assignments: Iterable[Assignment], timeout_s: float = PURGED_S) -> None:
        """Let nothing be sent any more for epochs that have ended. Poll thread; returns when it is so.

        Else what is left in a producer's queue could come behind what the partition's next owner sends.
        """
        if not self._book.end(assignments) or not self._thread.is_alive():
            return
        done = threading.Event()
        self._purges.append(done)
        self._wake.set()
        done.wait(timeout_s)

    def stop(self, timeout_s: float, *, keeps_producer: bool = False) -> int:
        """Stop, at most after so many seconds; return how many outputs are not acknowledged.

        With `keeps_producer` the producer stays open if nothing of this sender is left in it: its `client`
        says whether it did.
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
            if self._second is not None:
                self._second.give_up(0.0, 0.1)
            while self._purges:
                self._purges.popleft().set()

    def _turn(self) -> None:
        producer = self._producer
        if self._purges:
            self._purge()
        if producer.is_lost:
            self._renew(is_fault=True)
        if producer.client is None:
            self._open_next()
        self._queue.extend(self._book.take_new())
        if producer.client is not None:
            self._send()
        producer.serve(BUSY_POLL_S if self._in_flight else 0.0)
        self._take_answers()
        if self._refusals:
            self._go_on_with_refused()
        if not self._in_flight and not producer.is_lost:
            self._book.sleeps = True
            if not self._book.has_new():
                self._wake.wait(self._patience_s())
            self._book.sleeps = False
            self._wake.clear()

    def _patience_s(self) -> float:
        if self._purges or self._decided or self._ends_s is not None:
            return BUSY_POLL_S
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        return BUSY_POLL_S if self._refusals or self._queue else IDLE_WAIT_S

    def _purge(self) -> None:
        done = [self._purges.popleft() for _ in range(len(self._purges))]
        second = self._second
        if any(refusal.is_under_way and refusal.head.is_dropped for refusal in self._refusals):
            assert second is not None
            second.renew(is_fault=False)
            for refusal in self._refusals:
                refusal.is_under_way = False
        if any(output.is_dropped for output in self._in_flight):
            self._renew(is_fault=False)
        for one in done:
            one.set()

    def _renew(self, *, is_fault: bool) -> None:
        """Give the producer up; what it did not answer is sent by the next one, before all that is new."""
        self._producer.give_up(LAST_ANSWERS_S)
        # The answers that came with it, which say nothing of the next one, but perhaps what ended this one.
        self._take_answers(is_over=True)
        self._producer.renew(is_fault=is_fault and not self._has_refused)
        self._has_refused = False
        self._in_flight.clear()
        self._refusals.forget_waiting()
        # The book is the truth: all of it again, in the order of its making.
        self._queue = deque(self._book.take_all())

    def _open_next(self) -> None:
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            self._emit(OutputProblem(str(failed), self._producer.due_s()))

    def _send(self) -> None:
        queue, produce = self._queue, self._producer.client.produce
        while queue:
            output = queue[0]
            if not (output.is_dropped or (self._refusals and self._refusals.blocks(output))):
                output.answers = self._answers
                try:
                    produce(
                        output.topic,
                        output.value,
                        output.key,
                        output.partition,
                        output.delivered,
                        headers=output.headers,
                    )
                except BufferError:
                    return  # what is on its way makes room
                except KafkaException as failed:
                    self._not_taken(output, failed.args[0])
                except Exception as failed:  # headers may hold anything
                    self._refusals.add(output, describe(failed), 0.0)
                else:
                    self._in_flight.add(output)
            queue.popleft()
            if self._producer.is_lost:
                return

    def _not_taken(self, output: Output, error: KafkaError) -> None:
        if error.code() in _CONSEQUENCES:
            self._producer.failed(error)  # lost: what is in the book is sent again
        else:
            self._refusals.add(output, describe_error(error), 0.0)

    def _take_answers(self, *, is_over: bool = False) -> None:
        answers = self._answers
        if not answers:
            return
        safe: list[Output] = []
        for output, error in answers:
            if output not in self._in_flight:
                continue
            self._in_flight.discard(output)
            if error is None:
                safe.append(output)
            elif error.code() in _CONSEQUENCES:
                if not (is_over or error.code() in _TAKEN_BACK):
                    self._producer.failed(error)
            elif not output.is_dropped:
                self._has_refused = True
                self._refusals.add(output, describe_error(error), 0.0)
        answers.clear()
        if safe:
            self._producer.acknowledged()
            self._book.settle(safe)

    # --- what was refused --------------------------------------------------------------------------

    def _go_on_with_refused(self) -> None:
        while self._decided:
            self._end(self._decided.popleft(), acknowledged=False)
        if self._second is None:
            self._second = self._make_second()
        second, now_s = self._second, self._clock()
        if second.is_lost:
            second.renew()
            for refusal in self._refusals:
                refusal.is_under_way = False
        try:
            second.open_when_due()
        except EhkafkaError as failed:
            self._emit(OutputProblem(str(failed), second.due_s()))
        for refusal in self._refusals:
            if refusal.head.is_dropped and not refusal.is_under_way:
                self._end(refusal, acknowledged=False)
            elif not (refusal.is_under_way or refusal.is_decided) and refusal.due_s <= now_s:
                self._try_alone(refusal)
        second.serve(0.0 if self._in_flight else BUSY_POLL_S)

    def _try_alone(self, refusal: Refusal) -> None:
        assert self._second is not None
        head = refusal.head
        # What is not handed over yet may be earlier, where its producer was given up.
        if self._second.client is None or self._queue or self._has_earlier(head):
            return
        try:
            self._second.client.produce(
                head.topic,
                head.value,
                head.key,
                head.partition,
                partial(self._answered_alone, refusal),
                headers=head.headers,
            )
        except BufferError:
            return
        except KafkaException as failed:
            self._answered_alone(refusal, failed.args[0], None)
        except Exception as failed:  # headers may hold anything
            self._refused_alone(refusal, describe(failed))
        else:
            refusal.is_under_way = True

    def _has_earlier(self, head: Output) -> bool:
        """Tell whether an earlier output of its group is still with the main producer."""
        return head.group is not None and any(
            output.group == head.group and output.serial < head.serial for output in self._in_flight
        )

    def _answered_alone(self, refusal: Refusal, error: KafkaError | None, _message: Any) -> None:
        assert self._second is not None
        refusal.is_under_way = False
        if error is None:
            self._second.acknowledged()
            self._end(refusal, acknowledged=True)
        elif error.code() in _CONSEQUENCES:
            if error.code() not in _TAKEN_BACK:
                self._second.failed(error)
            refusal.due_s = self._clock() + AGAIN_S
        else:
            self._refused_alone(refusal, describe_error(error))

    def _refused_alone(self, refusal: Refusal, error: str) -> None:
        """Let its handler's rules decide: another try, or what becomes of it."""
        refusal.error = error
        head = refusal.head
        refused = OutputRefusedError(f"its output to {head.topic!r} is refused: {error}")
        if head.claim.is_before_next:
            self._refused_before_next(refusal, refused)
            return
        refusal.tries += 1
        delay_s = self._judge_of(head)(head, refused, refusal.tries, partial(self._decide, refusal))
        if delay_s is None:
            refusal.is_decided = True
        else:
            refusal.due_s = self._clock() + delay_s

    def _refused_before_next(self, refusal: Refusal, refused: OutputRefusedError) -> None:
        """Let the attempt as a whole fail, since its key waits; a retry sends all of it again."""
        head, claim = refusal.head, refusal.head.claim
        on_refused = claim.on_refused
        if on_refused is None and not claim.has_failed:
            # Its call has not returned: then nobody can decide yet.
            refusal.due_s = self._clock() + AGAIN_S
            return
        claim.on_settled = None
        # Else what the attempt sent behind it would pass it.
        behind = [
            output
            for output in (*refusal.waiting, *self._queue)
            if output.claim is claim and output.group == head.group and output is not head
        ]
        for output in behind:
            output.is_dropped = True
        self._book.settle(behind, acknowledged=False)
        self._end(refusal, acknowledged=False)
        if on_refused is not None:
            on_refused(refused)

    def _decide(self, refusal: Refusal) -> None:
        self._decided.append(refusal)
        self._wake.set()

    def _end(self, refusal: Refusal, *, acknowledged: bool) -> None:
        self._queue.extendleft(reversed(self._refusals.end(refusal)))
        if not refusal.head.is_dropped:
            self._book.settle([refusal.head], acknowledged=acknowledged)


_TAKEN_BACK = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001
