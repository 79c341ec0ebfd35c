"""The committer: sends what the ledger plans, and reports the broker's answers back.

An edge, on the poll thread: `on_commit` is called by librdkafka inside `consume()`. Offsets are always
given explicitly: a bare `commit()` takes what was last handed out, finished or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError, EngineError, FencedError
from ehkafka.events import CommitAcknowledged, CommitFailed
from ehkafka.progress.commit_transports import CommitError, ConsumerCommits, classify
from ehkafka.records import TopicPartition
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Consumer
    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.progress.commit_transports import CommitTransport
    from ehkafka.progress.ledger import CommitLedger, Position
    from ehkafka.progress.saving import Locked, ProgressSaver

    OnAcknowledged = Callable[[Mapping[TopicPartition, Position]], None]


class Committer:
    """Commits positions of one consumer. `fatal` is called with errors that a wait does not fix.

    `saver` made the positions' metadata and is called when the broker finds that too long. `commits` is
    what carries commits out; None: the consumer.
    """

    def __init__(
        self,
        ledger: CommitLedger,
        *,
        clock: Callable[[], float],
        emit: Callable[[Event], None],
        fatal: Callable[[EhkafkaError], None],
        history: History | None = None,
        saver: ProgressSaver | None = None,
        commits: CommitTransport | None = None,
    ) -> None:
        self._ledger = ledger
        self._commits = commits or ConsumerCommits()
        self._clock = clock
        self._emit = emit
        self._fatal = fatal
        self._history = history
        self._saver = saver
        self._on_acknowledged: OnAcknowledged | None = None
        # When the last request went out. Written and read on the poll thread; `commit_once` alone may come
        # from another one, and never during any other call.
        self._sent_s = 0.0
        # Why the last commit failed; None since one was acknowledged. Read by `App.health`.
        self.problem: str | None = None
        # How many were.
        self.acknowledged = 0
        # The partitions that it was for. Replaced, never changed.
        self.failed_partitions: frozenset[TopicPartition] = frozenset()
        # Whether another try may succeed where the last one failed.
        self.is_transient = True

    def listen(self, on_acknowledged: OnAcknowledged) -> None:
        """Tell a listener of each acknowledgement: by partition, what was stored.

        Before the first commit. Called on the poll thread, so it must not block. What it hears includes
        ranges that do not fit into the commit.
        """
        self._on_acknowledged = on_acknowledged
        self._ledger.keeps_ranges = True
        if self._saver is not None:
            self._saver.is_mirrored = True

    def send(
        self, consumer: Consumer, positions: Mapping[TopicPartition, Position], finished_records: int
    ) -> KafkaError | None:
        """Start one asynchronous commit of what is dirty; nothing if nothing is.

        Return why the client refused to, if it did; that is reported already.
        """
        self._sent_s = self._clock()
        times = {} if self._saver is None else self._saver.times()
        chosen = self._commits.chosen(positions)
        if self._saver is not None and len(chosen) < len(positions):
            self._saver.has_moved()
        dirty = self._ledger.plan(chosen, self._sent_s, finished_records, **times)
        if not dirty:
            return None
        self._note_request(dirty)
        try:
            self._commits.begin(consumer, dirty)
        except KafkaException as error:
            self._refused(self._ledger.landed(), error.args[0])
            return error.args[0]  # type: ignore[no-any-return]
        return None

    def tick(self, consumer: Consumer, groups: Sequence[Locked], finished_records: int) -> None:
        """Start one asynchronous commit of what is dirty by now, in assignments by the lock they share."""
        assert self._saver is not None
        self.send(consumer, self._saver.positions(groups), finished_records)

    def waited_s(self) -> float:
        """Return for how long the last request has been under way, were it unanswered."""
        return self._clock() - self._sent_s

    def give_up(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Report what is dirty as refused: a request has waited too long for its answer."""
        if dirty := self._ledger.dirty(positions):
            self._refused(dirty, _late(self.waited_s()))

    def on_commit(self, error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> None:
        """Take the answer to the asynchronous commit. Called by librdkafka inside `consume()`."""
        # One request is under way at a time, so the answer belongs to what the ledger sent last. One that
        # comes late never lowers what was acknowledged since, and of an epoch that ended it says nothing.
        self._answered(self._ledger.landed(), error, partitions)

    def take_answers(self) -> None:
        """Take the answers that do not come inside of `consume()`."""
        for error, partitions in self._commits.answers():
            self.on_commit(error, partitions)

    def settle(self, timeout_s: float | None) -> bool:
        """Wait for a transaction under way and take its answer; False: it may still be committed.

        Last positions are fixed after it. They contain all that it contains, also where the text is too short
        for more: else the next owner would handle again, and send again, what was just committed.
        """
        is_over = self._commits.settle(timeout_s)
        self.take_answers()
        return is_over

    def commit_now(
        self,
        consumer: Consumer,
        positions: Mapping[TopicPartition, Position],
        timeout_s: float | None = None,
    ) -> None:
        """Commit what is dirty and wait for the answer; with `timeout_s` seconds at most."""
        # The caller has let the commit before this one end: librdkafka may resend a refused request, and one
        # that arrived after the last would take the group back.
        deadline_s = self._clock() + (timeout_s or 0.0)
        for _ in range(_TRIES_NOW):
            dirty = self._begin_now(positions)
            if not dirty:
                return
            left_s = None if timeout_s is None else max(0.0, deadline_s - self._clock())
            answer = self._commits.ready(consumer, dirty)(left_s)
            if answer is None:
                self._refused(dirty, _late(left_s or 0.0))
                return
            self._answered(dirty, *answer)
            if not names_metadata(*answer):
                return

    def commit_once(
        self, consumer: Consumer, positions: Mapping[TopicPartition, Position]
    ) -> tuple[KafkaError | None, Sequence[KafkaPartition]]:
        """Commit what is dirty, wait, and return the broker's words: no second try, whatever they are.

        On any thread, one at a time, and never during another call of this committer.
        """
        dirty = self._begin_now(positions)
        answer = self._commits.ready(consumer, dirty)(None)
        assert answer is not None
        self._answered(dirty, *answer)
        return answer

    def _begin_now(self, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        now_s = self._clock()
        dirty = self._ledger.plan_now(positions, now_s)
        if dirty:
            self._note_request(dirty)
            self._sent_s = now_s
        return dirty

    def _answered(
        self,
        sent: Mapping[TopicPartition, Position],
        error: KafkaError | None,
        partitions: Sequence[KafkaPartition],
    ) -> None:
        refused = {TopicPartition(p.topic, p.partition): p.error for p in partitions if p.error is not None}
        if error is None and not refused:
            self._stored(sent)
            return
        # An error of the request leaves nothing stored: each partition's own answer then means nothing.
        if error is not None:
            self._refused(sent, error)
            return
        # Some were stored: those count; each of the others says why.
        self._stored({p: position for p, position in sent.items() if p not in refused})
        # Those refused for their metadata are kept apart, for they go again at once without; the others wait
        # for the next tick, and one event each says why.
        too_long = {p for p, why in refused.items() if classify(why) is CommitError.METADATA}
        for others in (set(refused) - too_long, too_long):
            if others:
                part = {p: position for p, position in sent.items() if p in others}
                self._refused(part, refused[next(iter(part))])

    def _stored(self, sent: Mapping[TopicPartition, Position]) -> None:
        if not sent:
            return
        now_s = self._clock()
        # The ledger first: the listener and the hooks may look at what is committed.
        self._ledger.confirm(sent, now_s)
        self.problem, self.is_transient = None, True
        self.acknowledged += 1
        next_offsets = {p: position.next_offset for p, position in sent.items()}
        if self._history is not None:
            self._history.commit_acknowledged(next_offsets)
        self._emit(CommitAcknowledged(tuple(next_offsets.items()), now_s - self._sent_s))
        self._report_listener(sent)

    def _report_listener(self, sent: Mapping[TopicPartition, Position]) -> None:
        if self._on_acknowledged is None:
            return
        try:
            self._on_acknowledged(sent)
        except Exception as error:  # must not escape into librdkafka, which would drop a batch
            self._fatal(EngineError(f"Mirroring a commit failed: {error!r}. Please report this error."))

    def _refused(self, sent: Mapping[TopicPartition, Position], error: KafkaError) -> None:
        kind = classify(error)
        text = describe_error(error)
        if kind is CommitError.METADATA and any(position.metadata for position in sent.values()):
            self._leave_metadata_out(sent)
        else:
            # Nothing counts as committed, so it stays dirty and goes with the next tick, with newer offsets.
            self._ledger.failed(self._clock())
            self.failed_partitions = frozenset(sent)
            self.problem, self.is_transient = text, kind in _TRANSIENT
        if self._history is not None:
            self._history.commit_failed({p: position.next_offset for p, position in sent.items()}, text)
        self._emit(CommitFailed(tuple(sent), text, retriable=kind in _TRANSIENT, took_s=self.waited_s()))
        # Neither goes away by waiting: another process has our instance id, or a right is missing. Working on
        # would only make more records that are handled again.
        if kind is CommitError.FENCED:
            self._fatal(FencedError(f"The group fenced this process while it committed: {text}"))
        elif kind is CommitError.DENIED:
            self._fatal(EndpointError(f"The broker refuses commits of this app: {text}"))

    def _leave_metadata_out(self, sent: Mapping[TopicPartition, Position]) -> None:
        """See that they are sent again at once without: a commit never fails for its text."""
        self._ledger.refuse_metadata(sent)
        longest_bytes = max((len(position.metadata or "") for position in sent.values()), default=0)
        if self._saver is not None:
            self._saver.refused(longest_bytes)

    def _note_request(self, positions: Mapping[TopicPartition, Position]) -> None:
        if self._history is not None:
            self._history.commit_requested({p: position.next_offset for p, position in positions.items()})


def names_metadata(error: KafkaError | None, partitions: Sequence[KafkaPartition]) -> bool:
    """Tell whether the broker refused a commit for its text."""
    errors = [error, *(partition.error for partition in partitions)]
    return any(one is not None and classify(one) is CommitError.METADATA for one in errors)


def _late(waited_s: float) -> KafkaError:
    return KafkaError(ClientCode.TIMED_OUT, f"no answer within {seconds(waited_s)}")


# A synchronous commit is retried for metadata that was too long: once without it.
_TRIES_NOW = 2
_TRANSIENT = {CommitError.RETRY, CommitError.REJOIN, CommitError.METADATA}
