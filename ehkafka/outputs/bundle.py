"""A bundle: outputs that came one after another, each with a key and the only one of its record's call.

Nearly all are such. They go to the producer one by one, in their order, and are answered and let go together:
there is no object for each. Where anything is not as usual (an answer with an error, an epoch that has ended,
a producer that is given up, a key that must wait), the bundle is taken apart into single outputs, which have
their own ways for it. The book makes it; all else happens on the sender's thread, unless it says otherwise.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.outputs.claim import SingleOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from confluent_kafka import KafkaError

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.outputs.answered import Answered
    from ehkafka.outputs.outlet import Outlet


class Bundle:
    """Of one outlet, so to one topic; of any number of epochs. Each sequence has an entry for each output."""

    __slots__ = (
        "_acked",
        "_lowest",
        "_parts",
        "answered",
        "assignments",
        "columns",
        "headers",
        "keys",
        "messages",
        "outlet",
        "sent",
        "serials",
        "size",
        "values",
    )

    # What of a single output is its own.
    claim = None
    group = None

    def __init__(
        self,
        outlet: Outlet,
        columns: Sequence[Sequence[Any]],
        serials: Sequence[int],
    ) -> None:
        """`columns`: epochs, messages, keys, values, headers; `serials`: where each stands in the order."""
        self.outlet = outlet
        self.serials = serials
        self.assignments: Sequence[Assignment]
        self.messages: Sequence[Any]
        self.keys: Sequence[bytes]
        self.values: Sequence[bytes]
        self.columns = columns
        self.assignments, self.messages, self.keys, self.values, self.headers = columns
        self.size = sum(map(len, self.values)) + sum(map(len, self.keys))
        # How many the producer has been given, and the answers. Of equal outputs they come in their order.
        self.sent = 0
        self._acked: list[Any] = []
        # Where the producer's answers go. Set by the sender as it hands the first one over.
        self.answered: Answered | None = None
        # Once it is taken apart: by key and value what the producer has and has not answered.
        self._parts: dict[tuple[bytes, bytes], deque[SingleOutput]] | None = None
        # By epoch, once asked for.
        self._lowest: dict[Assignment, int] = {}

    def __len__(self) -> int:
        return len(self.values)

    @property
    def topic(self) -> str:
        """Where all of it goes."""
        return self.outlet.topic

    @property
    def is_dropped(self) -> bool:
        """Tell whether some of it must not be sent any more, since their epoch has ended."""
        return any(assignment.ended for assignment in set(self.assignments))

    @property
    def is_apart(self) -> bool:
        """Tell whether it was taken apart: then it only hands answers on."""
        return self._parts is not None

    @property
    def answers(self) -> int:
        """How many of it are safe."""
        return len(self._acked)

    def groups(self) -> Iterator[tuple[object, int]]:
        """Yield each output's group, whose order it keeps, and its serial number."""
        for key, serial in zip(self.keys, self.serials, strict=True):
            yield (self.topic, key), serial

    def messages_of(self, assignment: Assignment) -> list[Any]:
        """Return which records of an epoch it is of. Any thread."""
        pairs = zip(self.assignments, self.messages, strict=True)
        return [message for epoch, message in pairs if epoch is assignment]

    def offsets(self, assignment: Assignment) -> list[int]:
        """Return the offsets of the same. Any thread."""
        return [message.offset() for message in self.messages_of(assignment)]

    def lowest(self, assignment: Assignment) -> int:
        """Return the lowest of them, which is asked for with each commit. Any thread."""
        if not self._lowest:
            lowest: dict[Assignment, int] = {}
            for epoch, message in zip(self.assignments, self.messages, strict=True):
                offset = message.offset()
                if lowest.setdefault(epoch, offset) > offset:
                    lowest[epoch] = offset
            self._lowest = lowest
        return self._lowest[assignment]

    def send(self, produce: Callable[..., object], answered: Answered) -> None:
        """Give the producer the rest of it. What `produce` raises leaves the output that it was not taken."""
        self.answered = answered
        topic, sent = self.topic, self.sent
        try:
            for key, value, headers in zip(*(column[sent:] for column in self.columns[2:]), strict=True):
                if headers is None:
                    produce(topic, value, key, -1, self)
                else:
                    produce(topic, value, key, -1, self, headers=headers)
                sent += 1
        finally:
            self.sent = sent

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        """Take an answer. Called by librdkafka inside `poll`, on the sender's thread."""
        answered = self.answered
        assert answered is not None
        if error is None and answered.is_plain and self._parts is None and message.offset() is not None:
            acked = self._acked
            acked.append(message)
            if len(acked) == len(self.values):
                answered.safe.append(self)
            return
        if self._parts is None:
            answered.apart.append(self.outlet.book.take_apart(self))
        assert self._parts is not None
        self._parts[message.key(), message.value()].popleft()(error, message)

    def apart(self) -> tuple[list[SingleOutput], list[SingleOutput], list[SingleOutput]]:
        """Take it apart: return what is safe, what the producer has and has not answered, and the rest."""
        outputs = [
            SingleOutput(
                self.outlet, assignment, message, self.topic, value, key, headers, len(key) + len(value)
            )
            for assignment, message, key, value, headers in zip(*self.columns, strict=True)
        ]
        for output, serial in zip(outputs, self.serials, strict=True):
            output.serial = serial
            output.answered = self.answered
        sent, rest = outputs[: self.sent], outputs[self.sent :]
        parts: dict[tuple[bytes, bytes], deque[SingleOutput]] = {}
        for output, *what in zip(sent, self.keys, self.values, strict=False):
            parts.setdefault((what[0], what[1]), deque()).append(output)
        safe = [parts[message.key(), message.value()].popleft() for message in self._acked]
        self._parts = parts
        done = set(safe)
        return safe, [output for output in sent if output not in done], rest


class Apart(NamedTuple):
    """What is left of a bundle that was taken apart, each in its order."""

    bundle: Bundle
    # What the producer has and has not answered, and what it has not been given.
    sent: list[SingleOutput]
    rest: list[SingleOutput]
