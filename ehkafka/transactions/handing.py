"""Hands a transaction's outputs to its client, and collects those that were in a refused batch.

On the transactions' thread. The client reports only errors: the commit acknowledges all other messages.

A broker refuses a whole batch, and reports all of it. The outputs of a refused batch are sent again in
transactions that are aborted in any case, by clients with smaller and smaller batches, until a batch has one
output. After a refusal the broker takes nothing more from that client, so each try finds one refused output,
or a few neighbours. If all are accepted in smaller batches, the batch itself was too large.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, produce_one, refused_error
from ehkafka.outputs.output import PARTS
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ehkafka.outputs.output import Output, OutputRefusedError

# Outputs that are handed over between two checks for errors; and outputs that the client may have, half of
# its queue.
SLICE: Final = 500
IN_CLIENT_MAX: Final = 50_000
ROOM_POLL_S: Final = 0.01
# These errors are not about the message: the transaction failed, or the broker is away or busy.
NO_REFUSALS: Final = CONSEQUENCES | {
    ClientCode.MSG_TIMED_OUT,
    ClientCode.STATE,
    ClientCode.TRANSPORT,
    ClientCode.TIMED_OUT,
    # INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED and TRANSACTION_ABORTABLE: a partition's new
    # leader asks the coordinator about the transaction, which may have ended or have to wait.
    *(48, 51, 90, 120),
}


# The most batches of a try: five of them take a round trip to the broker.
BATCHES_MAX: Final = 200


class SomeRefusedError(Exception):
    """The broker or the client refuses some outputs: the transaction has to be aborted."""


class Handing:
    """The outputs of one transaction."""

    def __init__(
        self, client: Any, flat: list[Any], *, busy: Collection[int], is_over: Callable[[], bool]
    ) -> None:
        """`busy` are errors by which the broker throttles. `is_over`: the transaction is not needed."""
        self._client = client
        self._flat = flat
        self._no_refusals = NO_REFUSALS | set(busy)
        self._is_over = is_over
        # Some message was not written, for any reason.
        self.has_failed = False
        # The errors of outputs: by place in `flat`, those that the client itself refuses; by place, or by
        # topic, value and key, those in batches that the broker refuses. Filled inside the client's calls.
        self.refused: dict[int, OutputRefusedError] = {}
        self._tried: dict[int, OutputRefusedError] = {}
        self._marks: dict[tuple[str, Any, Any], OutputRefusedError] = {}

    def hand_all(self) -> None:
        """Hand over all outputs, in order. Raises `KafkaException` or `SomeRefusedError`."""
        for start in range(0, len(self._flat), SLICE * PARTS):
            handed = self._hand_run(self._flat[start : start + SLICE * PARTS])
            for at in range(start, min(start + SLICE * PARTS, len(self._flat)), PARTS)[handed:]:
                self._hand_one(at // PARTS)
            self._make_room()

    def try_out(self, places: Sequence[int]) -> None:
        """Hand over some outputs, and wait until the broker has written them. Raises the same errors."""
        for place in places:
            self._hand_one(place, partial(self._reported_of, place))
            self._make_room()
        while len(self._client):
            self._poll(ROOM_POLL_S)
        if (
            self.has_failed
        ):  # by an error that is not about the messages: they were neither accepted nor refused
            raise KafkaException(KafkaError(ClientCode.STATE, "the messages were not written"))

    @property
    def named(self) -> dict[int, OutputRefusedError]:
        """The errors of outputs in refused batches, by place."""
        if not self._marks:
            return self._tried
        marks = zip(*(self._flat[part::PARTS] for part in (2, 3, 4)), strict=True)
        return {place: self._marks[mark] for place, mark in enumerate(marks) if mark in self._marks}

    def settle(self, timeout_s: float) -> None:
        """Take the last reports of an aborted transaction."""
        ends_s = time.monotonic() + timeout_s
        while len(self._client) and time.monotonic() < ends_s:
            try:
                self._client.poll(ROOM_POLL_S)
            except KafkaException:
                return  # it has ended: the next transaction finds it so

    def reported(self, error: KafkaError | None, message: Any) -> None:
        """Take the report of a message. The client calls it inside its calls."""
        if (refusal := self._refusal(error)) is not None:
            self._marks[message.topic(), message.value(), message.key()] = refusal

    def _reported_of(self, place: int, error: KafkaError | None, _message: object) -> None:
        if (refusal := self._refusal(error)) is not None:
            self._tried[place] = refusal

    def _refusal(self, error: KafkaError | None) -> OutputRefusedError | None:
        if error is None or error.code() in TAKEN_BACK:
            return None
        self.has_failed = True
        return None if error.code() in self._no_refusals else refused_error(error)

    def _hand_run(self, flat: list[Any]) -> int:
        """Hand over outputs; return how many the client took."""
        produce, handed = self._client.produce, 0
        try:
            for topic, value, key, headers, partition in zip(
                *(flat[part::PARTS] for part in range(2, PARTS)), strict=True
            ):
                if headers is None:
                    produce(topic, value, key, partition)
                else:
                    produce(topic, value, key, partition, headers=headers)
                handed += 1
        except Exception:  # of any kind: the output that caused it raises it again
            return handed
        return handed

    def _hand_one(self, place: int, *on_report: object) -> None:
        topic, value, key, headers, partition = self._flat[place * PARTS + 2 : (place + 1) * PARTS]
        while error := produce_one(self._client, topic, value, key, headers, partition, *on_report):
            if isinstance(error, KafkaError):
                if error.code() == ClientCode.QUEUE_FULL:
                    self._poll(ROOM_POLL_S)
                    continue
                if error.code() in self._no_refusals:
                    raise KafkaException(error)
                error = refused_error(error)
            self.refused[place] = error
            raise SomeRefusedError

    def _make_room(self) -> None:
        self._poll(0.0)
        while len(self._client) > IN_CLIENT_MAX:
            self._poll(ROOM_POLL_S)

    def _poll(self, timeout_s: float) -> None:
        self._client.poll(timeout_s)
        if self._marks or self._tried:
            raise SomeRefusedError
        if self._is_over():
            raise KafkaException(KafkaError(ClientCode.STATE, "it is over"))


def batch_outputs(count: int) -> int:
    """Return the number of outputs in a batch, if so many outputs are tried."""
    return -(-count // BATCHES_MAX)


def with_alike(
    outputs: Sequence[Output], refused: Mapping[int, OutputRefusedError]
) -> dict[int, OutputRefusedError]:
    """Add the outputs that must be too large as well, which saves a try for each. By place in `outputs`.

    Not for compressed batches: there a larger output may be a smaller message.
    """
    found = dict(refused)
    # By topic: the least size that was refused.
    least: dict[str, tuple[int, OutputRefusedError]] = {}
    for place, error in refused.items():
        output = outputs[place]
        known = least.get(output.topic)
        # With headers `size` is approximate.
        if error.is_too_large and not output.headers and (known is None or output.size < known[0]):
            least[output.topic] = output.size, error
    for place, output in enumerate(outputs if least else ()):
        known = least.get(output.topic)
        if known is not None and output.size >= known[0]:
            found.setdefault(place, known[1])
    return found
