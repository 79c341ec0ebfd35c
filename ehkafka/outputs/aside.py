"""Sends the outputs of refused keys one by one, until each is acknowledged or decided.

On the sender's thread, in each of its turns, by a second producer with batches of one message, because
brokers refuse whole batches. Outputs of one group keep their order: while one is refused, the later ones
wait. Once a group's outputs of the refused batch are accepted, its later ones go with others again.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from ehkafka.endpoint.client import describe_error
from ehkafka.events import OutputThrottled
from ehkafka.outputs.answers import CONSEQUENCES, IN_DOUBT, TAKEN_BACK, again_s, produce_one, refused_error
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.output import OutputRefusedError, Source
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.output import Output
    from ehkafka.outputs.unacknowledged import Unacknowledged

# How long a turn of the sender may wait for the answer to an output that was sent alone.
BUSY_POLL_S: Final = 2e-3
# The wait after a temporary failure of the second producer.
AGAIN_S: Final = 0.5


class AsideOutput:
    """The first output of a group, and its tries so far."""

    __slots__ = ("due_s", "is_under_way", "is_with_judge", "output", "throttled", "tries")

    def __init__(self, output: Output) -> None:
        self.output = output
        self.due_s = 0.0
        # How often it was refused alone: each refusal counts as an attempt.
        self.tries = 0
        # How often the broker throttled a try: that does not count.
        self.throttled = 0
        self.is_under_way = False
        # The judge decides, or the app stops: it is not sent before the judge's answer.
        self.is_with_judge = False


class Aside:
    """Owns the second producer."""

    def __init__(
        self,
        outputs: Unacknowledged,
        make_producer: Callable[[], OneProducer],
        *,
        emit: Callable[[Event], None],
        wake: Callable[[], object],
        clock: Callable[[], float],
        busy: Collection[int],
    ) -> None:
        """`wake` ends the sender's sleep when a judge answers; `busy` are errors that throttle."""
        self._outputs = outputs
        self._make_producer = make_producer
        self._emit = emit
        self._wake = wake
        self._clock = clock
        self._busy = busy
        self._producer: OneProducer | None = None
        # By group, or by an object of its own, with the keys of `Unacknowledged.aside`.
        self._set_aside: dict[object, AsideOutput] = {}
        # The last output of the refused batch in each group that had no further refusal so far.
        self._suspects: dict[object, Output] = {}
        # Of the last batches that were refused as too large: their outputs, how many of these were
        # acknowledged, and how many were refused as too large again.
        self._too_large = self._passed = self._still_too_large = 0
        # The judges' answers: seconds until the next try; None: not needed any more. Appended by any thread.
        self._decided: deque[tuple[object, AsideOutput, float | None]] = deque()

    @property
    def is_busy(self) -> bool:
        """Tell whether it has outputs to send, now or later."""
        return len(self._set_aside) > len(self._outputs.kept)

    @property
    def has_decisions(self) -> bool:
        """Tell whether judges have answered since the last turn."""
        return bool(self._decided)

    @property
    def problem(self) -> str | None:
        """Why nothing is acknowledged. Any thread."""
        return None if self._producer is None else self._producer.problem

    def add(self, output: Output, *, is_suspect: bool = True) -> None:
        """Send an output alone, and later ones of its group behind it. The caller has the lock.

        `is_suspect`: it was in a refused batch.
        """
        place: object = output.group or object()
        if is_suspect and (place not in self._set_aside or place in self._suspects):
            self._suspects[place] = output
        if self.takes(output):
            return
        self._outputs.aside[place] = deque([output])
        self._set_aside[place] = AsideOutput(output)

    def took_all(self, too_large: int) -> bool:
        """Tell whether all of the last batches that were too large were accepted one by one.

        Then the batches were too large, not their outputs. `too_large` outputs are in the next such batches.
        """
        took_all = 0 < self._too_large <= self._passed and not self._still_too_large
        self._too_large, self._passed, self._still_too_large = too_large, 0, 0
        return took_all

    def takes(self, output: Output) -> bool:
        """Take an output whose group is here; False: it may be sent with others. The caller has the lock."""
        if not self._set_aside or output.group not in self._set_aside:
            return False
        self._outputs.aside[output.group].append(output)
        return True

    def drop_ended(self) -> list[Output]:
        """Drop the outputs of epochs that have ended, also those that the producer has; return them."""
        under_way = any(aside.is_under_way and aside.output.has_ended for aside in self._set_aside.values())
        if under_way and self._producer is not None:
            # Its messages are answered, as purged; where one is not, no answer comes later.
            self._renew(self._producer, is_fault=False)
        dropped: list[Output] = []
        with self._outputs.lock:
            for place, queue in list(self._outputs.aside.items()):
                dropped += [output for output in queue if output.has_ended]
                kept = deque(output for output in queue if not output.has_ended)
                if len(kept) < len(queue):
                    self._go_on_with(place, kept)
            for output in dropped:
                self._outputs.let_go(output)
        return dropped

    def close(self) -> None:
        """Close the producer."""
        if self._producer is not None:
            self._producer.give_up(0.0, 0.1)

    def go_on(self, *, waits: bool) -> None:
        """Take the answers of judges, and send the outputs that are due; in each turn of the sender."""
        while self._decided:
            place, aside, delay_s = self._decided.popleft()
            aside.is_with_judge = False
            if delay_s is None:
                self._end(place, aside)
                continue
            aside.due_s = self._clock() + delay_s
            if aside.due_s == inf and self._set_aside.get(place) is aside:
                with self._outputs.lock:
                    self._outputs.kept.add(place)
        if not self._set_aside:
            if self._producer is not None:
                self._producer.serve(0.0)  # otherwise its statistics would pile up
            return
        producer = self._opened()
        if producer.client is not None:
            now_s = self._clock()
            for place, aside in list(self._set_aside.items()):
                is_waiting = aside.is_under_way or aside.is_with_judge or aside.due_s > now_s
                if not (is_waiting or aside.output.has_ended):
                    self._send(producer.client, place, aside)
        producer.serve(BUSY_POLL_S if waits and self.is_busy else 0.0)

    def _opened(self) -> OneProducer:
        if self._producer is None:
            self._producer = self._make_producer()
        if self._producer.is_lost:
            self._renew(self._producer, is_fault=True)
        self._producer.open_when_due()
        return self._producer

    def _renew(self, producer: OneProducer, *, is_fault: bool) -> None:
        producer.renew(is_fault=is_fault)
        for aside in self._set_aside.values():
            aside.is_under_way = False

    def _send(self, client: object, place: object, aside: AsideOutput) -> None:
        why = produce_one(client, *aside.output[2:], partial(self._answered, place, aside))
        if why is None:
            aside.is_under_way = True
        elif isinstance(why, OutputRefusedError):
            self._refused(place, aside, why)
        elif why.code() != ClientCode.QUEUE_FULL:
            self._answered(place, aside, why, None)

    def _answered(self, place: object, aside: AsideOutput, error: KafkaError | None, message: Any) -> None:
        """Take the broker's answer. Called by librdkafka inside `poll`, on the sender's thread."""
        assert self._producer is not None
        aside.is_under_way = False
        if self._set_aside.get(place) is not aside:
            return  # its epoch has ended
        if error is not None and error.code() not in TAKEN_BACK:
            self._producer.reported()
        if error is None and message is not None and message.offset() is None:
            # See the sender's `_reported`.
            self._producer.failed(KafkaError(ClientCode.FATAL, IN_DOUBT))
            aside.due_s = self._clock() + AGAIN_S
        elif error is None:
            self._passed += 1
            self._producer.acknowledged()
            self._end(place, aside)
            if isinstance(aside.output.source, Source):
                aside.output.source.acknowledged(message)
        elif error.code() in CONSEQUENCES or (
            # The output names no partition: the topic was recreated meanwhile.
            error.code() == ClientCode.UNKNOWN_PARTITION and aside.output.partition == ANY_PARTITION
        ):
            if error.code() not in TAKEN_BACK:
                self._producer.failed(error)
            aside.due_s = self._clock() + AGAIN_S
        elif error.code() in self._busy:
            aside.throttled += 1
            wait_s = again_s(aside.throttled)
            aside.due_s = self._clock() + wait_s
            self._emit(OutputThrottled(aside.output.topic, describe_error(error), wait_s))
        else:
            self._refused(place, aside, refused_error(error))

    def _refused(self, place: object, aside: AsideOutput, error: OutputRefusedError) -> None:
        """Let its source or its judge decide: another try, or the end of it."""
        self._still_too_large += error.is_too_large
        self._suspects.pop(place, None)
        output = aside.output
        if isinstance(output.source, Source) and output.source.takes_refusals:
            with self._outputs.lock:
                queue = self._outputs.aside[place]
                behind = [one for one in queue if one.source is output.source]
                self._go_on_with(place, deque(one for one in queue if one.source is not output.source))
                for one in behind:
                    self._outputs.let_go(one)
            output.source.refused(error)
            return
        aside.tries += 1
        aside.is_with_judge = True
        output.origin.judge(output, error, aside.tries, partial(self._decide, place, aside))

    def _decide(self, place: object, aside: AsideOutput, delay_s: float | None) -> None:
        self._decided.append((place, aside, delay_s))
        self._wake()

    def _end(self, place: object, aside: AsideOutput) -> None:
        """Remove an output that is acknowledged or not needed any more, and continue with the next one."""
        if self._set_aside.get(place) is not aside:
            return  # its epoch has ended
        with self._outputs.lock:
            queue = self._outputs.aside[place]
            queue.popleft()
            self._go_on_with(place, queue)
            self._outputs.let_go(aside.output)

    def _go_on_with(self, place: object, queue: deque[Output]) -> None:
        """Continue a group with these outputs. The caller has the lock."""
        if queue and queue[0] is self._set_aside[place].output:
            self._outputs.aside[place] = queue
            return
        self._outputs.kept.discard(place)
        last = self._suspects.get(place)
        if last is not None and not any(one is last for one in queue):
            self._outputs.put_back(list(chain.from_iterable(queue)))
            queue.clear()
        if not queue:
            self._suspects.pop(place, None)
            del self._outputs.aside[place], self._set_aside[place]
            return
        self._outputs.aside[place], self._set_aside[place] = queue, AsideOutput(queue[0])
