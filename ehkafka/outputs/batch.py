"""A batch: outputs for one partition, given to the client together and answered by one report.

A client can report each message, which costs more than sending it. Here only the last message of a batch is
reported. A partition has messages in the order in which they were handed over, and a gapless producer whose
messages never time out writes no message behind one that it failed to write: if the last one is written, all
are. One call hands all of them over, because librdkafka does not change its view of the topic during a call:
otherwise some messages could fail for a topic that is missing for a moment, and the last one could not.

With headers, which that one call does not support, each message is reported. With properties by which
librdkafka drops a message (see `properties`), each output is a batch of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.outputs.output import PARTS, outputs_of, size_of
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ehkafka.outputs.output import Output
    from ehkafka.outputs.round_robin import Line

    # Takes a batch's report: the batch, the error if there is one, and the message.
    OnReport = Callable[["OutputBatch", KafkaError | None, Any], None]

# librdkafka's own default of `batch.size`, and a size that every topic accepts.
BATCH_BYTES: Final = 1_000_000
BATCH_BYTES_MIN: Final = 16_384
# Instead of a smaller size: each message is a batch.
ONE_BY_ONE: Final = 0
# The most bytes in addition to keys and values: of each message, and of a request (librdkafka 2.16).
MESSAGE_BYTES: Final = 36
REQUEST_BYTES: Final = 1_024


class OutputBatch:
    """Outputs for one topic and partition, or one output whose key decides. The sender's thread only."""

    __slots__ = ("_on_report", "flat", "is_first", "left", "line")

    def __init__(
        self, flat: Sequence[Any], on_report: OnReport, *, line: Line | None = None, is_first: bool = False
    ) -> None:
        self.flat = flat
        self._on_report = on_report
        # Whose turn it is; None: it has not waited for one.
        self.line = line
        # It is the first output of its key for this client.
        self.is_first = is_first
        # How many reports are missing.
        self.left = 0

    def __call__(self, error: KafkaError | None, message: object) -> None:
        """Take a report: the batch is its own callback. Called by librdkafka inside `poll`."""
        self._on_report(self, error, message)

    def __iter__(self) -> Iterator[Output]:
        return outputs_of(self.flat)

    def __len__(self) -> int:
        return len(self.flat) // PARTS

    def send(self, client: Any, partition: int, *, each: bool = False) -> Sequence[Any]:
        """Hand the outputs to the client; return those for which it has no room, which leave the batch.

        `each`: every output has a report, since each goes in a request of its own. Raises the client's
        exception; then the batch has the outputs that were handed over before. Raises `SomeSentError` if that
        is not known.
        """
        if len(self) > 1 and not each and not any(self.flat[5::PARTS]):
            return self._send_at_once(client.produce_batch, partition)
        return self._send_each(client.produce, partition)

    def _send_at_once(self, produce_batch: Any, partition: int) -> Sequence[Any]:
        flat = self.flat
        pairs = zip(flat[4::PARTS], flat[3::PARTS], strict=True)
        messages: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in pairs]
        messages[-1]["callback"] = self
        self.flat = []  # until it is known to be with the client
        taken = produce_batch(flat[2], messages, partition)
        if taken:
            self.flat = flat
        if taken == len(messages):
            self.left = 1
            return []
        if taken:
            raise SomeSentError
        error = messages[0]["_error"]
        if error.code() != ClientCode.QUEUE_FULL:
            raise KafkaException(error)
        return flat

    def _send_each(self, produce: Any, partition: int) -> Sequence[Any]:
        flat = self.flat
        try:
            for _, _, topic, value, key, headers, _ in outputs_of(flat):
                if headers is None:
                    produce(topic, value, key, partition, self)
                else:
                    produce(topic, value, key, partition, self, headers=headers)
                self.left += 1
        except BufferError:
            return flat[self.left * PARTS :]
        finally:
            self.flat = flat[: self.left * PARTS]
        return []


class SomeSentError(Exception):
    """The client took only a part of a batch, without the message that is reported."""


def fitting(flat: list[Any], outputs_max: int, batch_bytes: int | None) -> list[Any]:
    """Return the first outputs, as many as fit into one request: then one report answers all of them.

    `ONE_BY_ONE` sets no limit here, because each message is reported.
    """
    bytes_max = (batch_bytes or BATCH_BYTES) - REQUEST_BYTES
    outputs_max = min(outputs_max, len(flat) // PARTS)
    while outputs_max > 1 and size_of(flat[: PARTS * outputs_max]) + MESSAGE_BYTES * outputs_max > bytes_max:
        outputs_max //= 2
    return flat[: PARTS * outputs_max]


def smaller_batches(batch_bytes: int | None, refused_bytes: int | None = None) -> int:
    """Return the size of the next batches: all outputs of a refused batch were accepted in smaller ones.

    `batch_bytes` is the size before, None: the client's default; `refused_bytes` that of the refused batch.
    """
    before = BATCH_BYTES if batch_bytes is None else batch_bytes
    least = before if refused_bytes is None else min(before, refused_bytes)
    return max(BATCH_BYTES_MIN, least // 4) if before > BATCH_BYTES_MIN else ONE_BY_ONE


def batch_limit(batch_bytes: int | None) -> dict[str, int]:
    """Return the client's properties for batches of up to so many bytes; None: no limit of ours."""
    if batch_bytes is None:
        return {}
    return {"batch.num.messages": 1} if batch_bytes == ONE_BY_ONE else {"batch.size": batch_bytes}


def with_limit(properties: Mapping[str, Any], limit: Mapping[str, int]) -> dict[str, Any]:
    """Return properties with a limit, unless they have a lower one."""
    return {
        **properties,
        **{name: min(most, int(properties.get(name, most))) for name, most in limit.items()},
    }
