"""Sends what was refused, one by one and by a second producer, until somebody has decided on it.

On the sender's thread, between its turns; what waits behind a refused output goes back to its queue.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, describe
from ehkafka.events import OutputProblem, OutputThrottled
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, OutputRefusedError, again_s
from ehkafka.outputs.refusals import Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from confluent_kafka import KafkaError

    from ehkafka.events import Event
    from ehkafka.outputs.book import OutputBook
    from ehkafka.outputs.bundle import Bundle
    from ehkafka.outputs.claim import Output
    from ehkafka.outputs.first_answers import FirstAnswers
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.refusals import Refusal

    # Given a refused output, why, and which attempt that was. Returns at once, and calls the last argument
    # later, on any thread: with the seconds until the next try, or None where it is not needed any more.
    Judge = Callable[[Output, OutputRefusedError, int, Callable[[float | None], None]], None]

# While outputs are on their way: how long a new one may wait for the producer's next turn.
BUSY_POLL_S: Final = 2e-3
# What a transient failure of the second producer waits for.
AGAIN_S: Final = 0.5


class RefusedOutputs:
    """Owns the second producer. The queue, what is in flight and the first answers are the sender's."""

    def __init__(
        self,
        book: OutputBook,
        make_second: Callable[[], OneProducer],
        *,
        queue: deque[Output | Bundle],
        in_flight: Collection[Output | Bundle],
        first_answers: FirstAnswers,
        judge_of: Callable[[Output], Judge],
        emit: Callable[[Event], None],
        wake: Callable[[], object],
        clock: Callable[[], float],
        busy: Collection[int],
    ) -> None:
        """`wake` ends the sender's sleep, for a judge's answer; `clock` and `busy` are the sender's."""
        self.refusals = Refusals()
        self._book = book
        self._make_second = make_second
        self._queue = queue
        self._in_flight = in_flight
        self._first_answers = first_answers
        self._judge_of = judge_of
        self._emit = emit
        self._wake = wake
        self._clock = clock
        self._busy = busy
        self._second: OneProducer | None = None
        # The judges' answers: when to try again; None where it is over. Appended by any thread.
        self._decided: deque[tuple[Refusal, float | None]] = deque()

    @property
    def has_decisions(self) -> bool:
        """Tell whether a judge has answered since the last look."""
        return bool(self._decided)

    def purge(self) -> None:
        """Let the second producer hold nothing more of epochs that have ended."""
        if any(refusal.is_under_way and refusal.head.is_dropped for refusal in self.refusals):
            assert self._second is not None
            self._second.renew(is_fault=False)
            for refusal in self.refusals:
                refusal.is_under_way = False

    def close(self) -> None:
        """Give the second producer up."""
        if self._second is not None:
            self._second.give_up(0.0, 0.1)

    def go_on(self) -> None:
        """Take the answers of judges, and try what is due; with each turn of the sender."""
        self._take_decisions()
        if self._second is None:
            self._second = self._make_second()
        second, now_s = self._second, self._clock()
        if second.is_lost:
            second.renew()
            for refusal in self.refusals:
                refusal.is_under_way = False
        try:
            second.open_when_due()
        except EhkafkaError as failed:
            self._emit(OutputProblem(str(failed), second.due_s()))
        due: list[Refusal] = []
        for refusal in self.refusals:
            if refusal.head.is_dropped and not refusal.is_under_way:
                # What waits behind it may pass nothing that is earlier and has not gone yet.
                if not self._queue and not self._first_answers.has_waiting(refusal.head.group):
                    self._end(refusal, acknowledged=False)
            elif not (refusal.is_under_way or refusal.is_with_judge) and refusal.due_s <= now_s:
                due.append(refusal)
        if due:
            self._try_alone(due)
        second.serve(0.0 if self._in_flight else BUSY_POLL_S)

    def _try_alone(self, due: list[Refusal]) -> None:
        assert self._second is not None
        # What is not handed over yet may be earlier, where its producer was given up.
        if self._second.client is None or self._queue:
            return
        earliest = self._earliest_in_flight()
        for refusal in due:
            head = refusal.head
            is_first = head.group is None or earliest.get(head.group, head.serial) >= head.serial
            if is_first and not self._first_answers.has_waiting(head.group):
                self._send_alone(refusal)

    def _earliest_in_flight(self) -> dict[object, int]:
        """Return the serial number of each group's earliest output that is still with the main producer."""
        earliest: dict[object, int] = {}
        for output in self._in_flight:
            for group, serial in output.groups():
                earliest[group] = min(serial, earliest.get(group, serial))
        return earliest

    def _send_alone(self, refusal: Refusal) -> None:
        assert self._second is not None
        head = refusal.head
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

    def _answered_alone(self, refusal: Refusal, error: KafkaError | None, _message: Any) -> None:
        assert self._second is not None
        refusal.is_under_way = False
        if error is not None and error.code() not in TAKEN_BACK:
            self._second.reported()
        if error is None:
            self._second.acknowledged()
            self._end(refusal, acknowledged=True)
        elif error.code() in CONSEQUENCES:
            if error.code() not in TAKEN_BACK:
                self._second.failed(error)
            refusal.due_s = self._clock() + AGAIN_S
        elif error.code() in self._busy:
            refusal.throttled += 1
            wait_s = again_s(refusal.throttled)
            refusal.due_s = self._clock() + wait_s
            self._emit(OutputThrottled(refusal.head.topic, describe_error(error), wait_s))
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
        refusal.is_with_judge = True
        self._judge_of(head)(head, refused, refusal.tries, partial(self._decide, refusal))

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

    def _decide(self, refusal: Refusal, delay_s: float | None) -> None:
        self._decided.append((refusal, delay_s))
        self._wake()

    def _take_decisions(self) -> None:
        while self._decided:
            refusal, delay_s = self._decided.popleft()
            if delay_s is None:
                self._end(refusal, acknowledged=False)
            else:
                refusal.is_with_judge = False
                refusal.due_s = self._clock() + delay_s

    def _end(self, refusal: Refusal, *, acknowledged: bool) -> None:
        self._queue.extendleft(reversed(self.refusals.end(refusal)))
        if not refusal.head.is_dropped:
            self._book.settle([refusal.head], acknowledged=acknowledged)
            # It may be in the queue once more, where the first producer was given up.
            refusal.head.is_dropped = True
