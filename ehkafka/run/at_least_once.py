"""Delivery at least once: the consumer commits what has its outputs and letters acknowledged.

Made before any thread of the run exists. `output_sender` is for others that send, too, such as a redrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.endpoint.properties.setting_checks import whole_number
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.batch import BATCH_BYTES
from ehkafka.outputs.delivery import Delivery
from ehkafka.outputs.one_producer import ALONE, producer_of
from ehkafka.outputs.properties import may_report_at_once, output_properties
from ehkafka.outputs.sender import OutputSender
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.progress.commit_transports import ConsumerCommits

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.progress.commit_transports import CommitTransport
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import TopicPartition
    from ehkafka.run.assembly import Assembly
    from ehkafka.run.options import AppOptions


class AtLeastOnce(Delivery):
    """One sender delivers; its thread runs from the start of a run to its end."""

    def __init__(self, run: Assembly, sender_of: Callable[[], OutputSender] | None = None) -> None:
        """`sender_of` gives a sender that may run already."""
        app, emit = run.app, run.bus.emit
        self._on_death = run.worker_died
        self._sender = sender_of() if sender_of is not None else output_sender(app, emit, self._died)
        super().__init__(self._sender.outputs)

    def commits(self, _ledger: CommitLedger, _epochs: Mapping[TopicPartition, int]) -> CommitTransport:
        """Return what commits: the consumer."""
        return ConsumerCommits()

    def start(self) -> None:
        """Start the sender."""
        self._sender.start()

    def stop(self, timeout_s: float) -> None:
        """Stop the sender."""
        self._sender.stop(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the sender's."""
        return self._sender.owns(thread)

    def wake(self) -> None:
        """Let the sender look."""
        self.outputs.wake()

    @property
    def problem(self) -> str | None:
        """The problem that outputs wait for, if any. Any thread."""
        return self._sender.problem

    def is_over_bound(self) -> bool:
        """Tell whether the sender is behind."""
        return self.outputs.is_behind()

    def waiting_epochs(self) -> set[Epoch]:
        """Return the epochs with outputs that may still be acknowledged; none after a failure."""
        return set() if self.has_failed else self.outputs.waiting_epochs()

    def lowest(self) -> dict[Epoch, int]:
        """Return the lowest offset of each epoch whose outputs are not acknowledged."""
        return self.outputs.lowest()

    def end(self, _epochs: Sequence[Epoch], timeout_s: float) -> None:
        """Have the sender drop what is of ended epochs."""
        self._sender.end(timeout_s)

    def _died(self, error: BaseException) -> None:
        # First: what stops because of it must not wait for acknowledgements.
        self.has_failed = True
        self._on_death(error)


_BATCH = "batch.size"


def output_sender(
    app: AppOptions, emit: Callable[[Event], None], on_death: Callable[[BaseException], None]
) -> OutputSender:
    """Return a sender for the outputs and dead letters of an app, not started."""
    properties = output_properties(app.endpoint, app.settings)
    producer = _producer(app, emit, {})
    producer.batch_bytes = _batch_bytes(properties)
    return OutputSender(
        Unacknowledged(),
        producer,
        lambda: _producer_alone(app, emit),
        emit=emit,
        on_death=on_death,
        clock=app.clock.now_s,
        busy=busy_codes(is_event_hubs=app.endpoint.is_event_hubs),
        # One report for a batch relies on sequence numbers, which the embedded broker ignores.
        at_once=not app.endpoint.is_embedded and may_report_at_once(properties),
        batch_outputs=whole_number("batch.num.messages", properties["batch.num.messages"]),
        takes_turns=_waits_for_answers(app),
    )


def _waits_for_answers(app: AppOptions) -> bool:
    return any(spec.acknowledged == "before_next" for spec in app.specs)


def _batch_bytes(properties: Mapping[str, object]) -> int | None:
    """Return the most bytes of a request; None: the app sets no less than the client's default."""
    said = [whole_number(name, properties[name]) for name in (_BATCH, LETTER_BYTES) if name in properties]
    least = min(said, default=BATCH_BYTES)
    return least if least < BATCH_BYTES else None


def check_producer(app: AppOptions, emit: Callable[[Event], None]) -> None:
    """Open a producer once and close it again. Raises `ConfigurationError` or `EndpointError`."""
    producer = _producer_alone(app, emit)
    try:
        producer.start()
    finally:
        producer.give_up(0.0)


def _producer_alone(app: AppOptions, emit: Callable[[Event], None]) -> OneProducer:
    """Return the producer for refused outputs."""
    return _producer(app, emit, ALONE)


def _producer(app: AppOptions, emit: Callable[[Event], None], more: Mapping[str, object]) -> OneProducer:
    """Return a producer that is not open yet.

    Opening it raises `EndpointError` if handlers have outputs and the broker does not support producer IDs.
    """
    has_outputs = any(spec.to for spec in app.specs)
    at_once = _waits_for_answers(app)
    return producer_of(
        lambda: {**output_properties(app.endpoint, app.settings, at_once=at_once), **more},
        app.endpoint.credential,
        emit=emit,
        of="outputs" if has_outputs else "dead letters",
        may_be_plain=not has_outputs,
    )
