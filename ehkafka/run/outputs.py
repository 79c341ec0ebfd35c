"""Outputs of one run: the book, its sender, and an outlet for each handler that sends.

Made before any thread of the run exists; started and stopped by the runtime, asked by the poll thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.book import OutputBook
from ehkafka.outputs.properties import goes_by_key, may_report_at_once, output_properties
from ehkafka.outputs.sender import OutputSender
from ehkafka.progress.commits import CONSUMER_COMMITS
from ehkafka.recovery.failures import STOP_WORDS, StopWords
from ehkafka.run.outlets import Outlets
from ehkafka.run.output_producer import output_producer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.handlers.spec import HandlerSpec
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.progress.commits import Commits
    from ehkafka.progress.ledger import CommitLedger
    from ehkafka.records import Record, TopicPartition
    from ehkafka.recovery.letters.letters import Letters
    from ehkafka.run.options import AppOptions


class Outputs:
    """What a run's handlers send."""

    def __init__(
        self,
        app: AppOptions,
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        words: StopWords = STOP_WORDS,
        may_hold: bool = True,
        producer: OneProducer | None = None,
    ) -> None:
        """`words` are what an error that stops the run says; `producer` is one that may be open already.

        Not `may_hold`: nothing may wait for the next start, see `RefusedOutputs`.
        """
        self._on_death = on_death
        self.book = OutputBook()
        self._outlets = Outlets(app, self.book, emit=emit, words=words, may_hold=may_hold)
        made = partial(output_producer, app.endpoint, app.settings, emit)
        properties = output_properties(app.endpoint, app.settings)
        self._sender = OutputSender(
            self.book,
            producer or made(),
            partial(made, gapless=False),
            judge_of=lambda output: self._outlets.rules[output.claim.outlet],
            emit=emit,
            on_death=self._died,
            clock=app.clock.now_s,
            busy=busy_codes(is_event_hubs=app.endpoint.is_event_hubs),
            # The embedded broker does not look at sequence numbers, on which that hangs.
            at_once=not app.endpoint.is_embedded and may_report_at_once(properties),
            by_key=goes_by_key(properties),
        )

    def outlet(
        self,
        spec: HandlerSpec,
        letters: Letters,
        make_record: type[Record],
        fatal: Callable[[EhkafkaError], None],
    ) -> Outlet:
        """Return a handler's way out."""
        return self._outlets.outlet(spec, letters, make_record, fatal)

    def start(self) -> None:
        """Open the producer and start sending. Raises `ConfigurationError` or `EndpointError`."""
        self._sender.start()

    def stop(self, timeout_s: float, *, keeps_producer: bool = False) -> int:
        """Stop; return how many outputs are not acknowledged. See `OutputSender.stop`."""
        return self._sender.stop(timeout_s, keeps_producer=keeps_producer)

    @property
    def is_running(self) -> bool:
        """Tell whether its thread still runs."""
        return self._sender.is_running

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return self._sender.owns(thread)

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it."""
        return self._sender.problem

    def waits(self, epoch: Epoch) -> bool:
        """Tell whether a record of an epoch waits for its outputs, and it is of use to wait."""
        return not self._outlets.has_failed and self.book.has_waiting(epoch)

    # An epoch's are dropped before its last commit, which does not pass them.
    ends_after_commit = False

    def is_over_bound(self) -> bool:
        """Tell whether nothing more should be received: never, because workers wait for room themselves."""
        return False

    def lost(self) -> None:
        """Do nothing: a commit is not hurried by outputs."""

    def commits(self, _ledger: CommitLedger, _epochs: Mapping[TopicPartition, int]) -> Commits:
        """Return what carries the run's commits out: the consumer."""
        return CONSUMER_COMMITS

    def lowest_waiting(self, epoch: Epoch) -> int | None:
        """Return the lowest offset of an epoch whose outputs are not acknowledged."""
        return self.book.lowest_waiting(epoch)

    def waiting(self, epoch: Epoch) -> frozenset[int]:
        """Return the offsets of an epoch whose outputs are not acknowledged."""
        return self.book.waiting(epoch)

    def key_of(self, epoch: Epoch, offset: int) -> bytes | None:
        """Return the key of one of these records."""
        return self.book.key_of(epoch, offset)

    def count(self) -> int:
        """Return how many outputs are not acknowledged."""
        return self.book.count()

    def end(self, epochs: Sequence[Epoch], timeout_s: float) -> None:
        """Let nothing be sent any more for epochs that have ended; waits at most so long until it is so."""
        self._sender.end(epochs, timeout_s)

    def _died(self, error: BaseException) -> None:
        # First: whoever stops because of it must not wait for acknowledgements.
        self._outlets.has_failed = True
        self._on_death(error)
