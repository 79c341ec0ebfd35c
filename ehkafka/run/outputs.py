"""What one run sends for its records, at least once: outputs of handlers, and dead letters to topics.

Made before any thread of the run exists; started and stopped by the runtime, asked by the poll thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.properties import goes_by_key, may_report_at_once, output_properties
from ehkafka.outputs.sender import OutputSender
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.progress.commits import CONSUMER_COMMITS
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.recovery.letters.to_topic import TopicWay
from ehkafka.run.outlets import Outlets
from ehkafka.run.output_producer import OutputProducers

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.progress.commits import Commits
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import Record, TopicPartition
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.options import AppOptions


class Outputs:
    """The outputs of one run, and their sender."""

    # An epoch's are dropped before its last commit, which does not pass them.
    ends_after_commit = False

    def __init__(
        self,
        app: AppOptions,
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        words: StopWords = STOP_WORDS,
        may_hold: bool = True,
        sender_of: Callable[[], OutputSender] | None = None,
    ) -> None:
        """`words` are what an error that stops the run says; `sender_of` gives one that may run already.

        Not `may_hold`: nothing may wait for the next start, see `RefusedOutputs`.
        """
        self._emit = emit
        self._clock = app.clock.now_s
        self._on_death = on_death
        self._sender = sender_of() if sender_of is not None else output_sender(app, emit, self._died)
        self.outputs = self._sender.outputs
        self._outlets = Outlets(app, self.outputs, emit=emit, words=words, may_hold=may_hold)

    def outlet(
        self,
        spec: HandlerSpec,
        letters: Letters,
        make_record: type[Record],
        fatal: Callable[[EhkafkaError], None],
    ) -> Outlet:
        """Return a handler's way out."""
        return self._outlets.outlet(spec, letters, make_record, fatal)

    def letters_to(self, topic: str) -> TopicWay:
        """Return a handler's way to a dead-letter topic."""
        return TopicWay(topic, self.outputs, problem=lambda: self.problem, emit=self._emit, clock=self._clock)

    def start(self) -> None:
        """Open the producer and start sending. Raises `ConfigurationError` or `EndpointError`."""
        self._sender.start()

    def stop(self, timeout_s: float) -> int:
        """Stop; return how many outputs are not acknowledged."""
        return self._sender.stop(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return self._sender.owns(thread)

    def wake(self) -> None:
        """Let refused outputs see whether they are due: the time has jumped."""
        self._sender.wake()

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it."""
        return self._sender.problem

    def waiting_epochs(self) -> set[Epoch]:
        """Return whose records wait for their outputs, where it is of use to wait."""
        return set() if self._outlets.has_failed else set(self.outputs.lowest())

    def is_over_bound(self) -> bool:
        """Tell whether nothing more should be received: the sender is behind."""
        return self.outputs.is_behind()

    def lost(self) -> None:
        """Do nothing: a commit is not hurried by outputs."""

    def commits(self, _ledger: CommitLedger, _epochs: Mapping[TopicPartition, int]) -> Commits:
        """Return what carries the run's commits out: the consumer."""
        return CONSUMER_COMMITS

    def lowest(self) -> dict[Epoch, int]:
        """Return the lowest offset of each epoch whose outputs are not acknowledged."""
        return self.outputs.lowest()

    def waiting(self) -> dict[Epoch, set[int]]:
        """Return the offsets of each epoch's records whose outputs are not acknowledged."""
        return self.outputs.waiting()

    def key_of(self, epoch: Epoch, offset: int) -> bytes | None:
        """Return the key of one of these records."""
        return self.outputs.key_of(epoch, offset)

    def count(self) -> int:
        """Return how many outputs are not acknowledged."""
        return self.outputs.count()

    def end(self, _epochs: Sequence[Epoch], timeout_s: float) -> None:
        """Let nothing be sent any more for epochs that have ended; waits at most so long until it is so."""
        self._sender.end(timeout_s)

    def _died(self, error: BaseException) -> None:
        # First: what stops because of it must not wait for acknowledgements.
        self._outlets.has_failed = True
        self._on_death(error)


def output_sender(
    app: AppOptions, emit: Callable[[Event], None], on_death: Callable[[BaseException], None]
) -> OutputSender:
    """Return a sender for the outputs and dead letters of an app, not started."""
    producers = OutputProducers(app, emit)
    properties = output_properties(app.endpoint, app.settings)
    return OutputSender(
        Unacknowledged(),
        producers.first(),
        producers.second,
        emit=emit,
        on_death=on_death,
        clock=app.clock.now_s,
        busy=busy_codes(is_event_hubs=app.endpoint.is_event_hubs),
        # The embedded broker does not look at sequence numbers, on which that hangs.
        at_once=not app.endpoint.is_embedded and may_report_at_once(properties),
        by_key=goes_by_key(properties),
    )
