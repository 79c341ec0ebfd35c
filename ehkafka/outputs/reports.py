"""What a client reports about its batches: they are written, refused, or in doubt.

The sender's thread only, inside `poll`. The sender lets go of all that is written after each poll.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from ehkafka.outputs.answers import CONSEQUENCES, IN_DOUBT, TAKEN_BACK, refused_error
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from ehkafka.outputs.batch import OutputBatch
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.output import OutputRefusedError
    from ehkafka.outputs.round_robin import Line
    from ehkafka.outputs.unacknowledged import Unacknowledged


class Reports:
    """Those of one client; `clear` when the next one takes over."""

    def __init__(self, outputs: Unacknowledged, producer: OneProducer, busy: Collection[int]) -> None:
        self._outputs = outputs
        self._producer = producer
        self._busy = busy
        # What is written since the sender last let go of such, with the report of each.
        self.written: list[tuple[OutputBatch, Any]] = []
        self.refused: dict[OutputBatch, OutputRefusedError] = {}
        # The broker throttles this client.
        self.is_throttled = False
        # Partitions whose later reports do not count.
        self._doubted: set[Line] = set()

    def take(self, batch: OutputBatch, error: KafkaError | None, message: Any) -> None:
        """Take a report. Called inside `poll`."""
        if batch not in self._outputs.batches:
            return  # its outputs are with a later client
        line = message.topic(), message.partition()
        if error is None and (self._is_doubted(line) or message.offset() is None):
            # No offset: librdkafka concludes from a later answer that this is written, by sequence numbers
            # that this broker may ignore. Then no later answer from there counts, and all is sent again.
            self._doubted.add(line)
            self._producer.failed(KafkaError(ClientCode.FATAL, IN_DOUBT))
        elif error is None:
            batch.left -= 1
            if not batch.left:
                if not self.written:
                    self._producer.acknowledged()
                self.written.append((batch, message))
        elif error.code() in CONSEQUENCES:
            if error.code() not in TAKEN_BACK:
                self._producer.failed(error)
        elif error.code() in self._busy:
            # The error is not about these outputs, so all are sent again: one by one they would be more
            # requests, and the broker asks for fewer.
            self.is_throttled = True
            self._producer.failed(error)
        else:
            self.refused[batch] = refused_error(error)
            if not self._producer.is_plain:  # there each output has a report of its own
                self._doubted.add(line)

    def _is_doubted(self, line: Line) -> bool:
        # A report may stand for outputs in an earlier request, which was refused; a broker that ignores
        # sequence numbers writes the later one. If no report names the refusal, it may be anywhere.
        return line in self._doubted or (self._producer.has_ended and not self.refused)

    def clear(self) -> None:
        """Begin anew, with another client."""
        self.is_throttled = False
        self.refused.clear()
        self._doubted.clear()
