"""The commits of a plain query with `commitOffsets=true`: for tools that show lag, and for a later consumer.

Only Spark's checkpoint decides where the query continues; nothing here moves it. Whenever Spark asks where
the next batch ends, all before that batch is finished, so this is committed. From outside of the group, which
takes commits only while it has no member. In Spark's planning process, on its one thread; loaded with the
option only.
"""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.checks.inspection import close_within
from ehkafka.checks.target import Target
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.limits import COMMIT_INTERVAL_S_MIN
from ehkafka.errors import GroupInUseError
from ehkafka.events import CommitFailed
from ehkafka.offsets.members import members_of
from ehkafka.progress.commit_transports import OutsideCommits
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing, Position
from ehkafka.progress.pacing import COMMIT_INTERVAL_S
from ehkafka.ranges.client import open_reader
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.wording import counted, ended
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.records import TopicPartition
    from ehkafka.spark.source.options import SourceOptions

_LOG = logging.getLogger("ehkafka.spark")
# What a wait for an answer may take of a query's time, and the end of the client.
ANSWER_S: Final = 5.0
_POLL_S: Final = 0.05


class QueryCommits:
    """What one run of a query commits. Once a commit was stored it never ends the query."""

    def __init__(self, options: SourceOptions, topic: str) -> None:
        assert options.group is not None
        self._options = options
        self._topic = topic
        self._endpoint = options.broker()
        apart_s = COMMIT_INTERVAL_S_MIN if self._endpoint.is_event_hubs else 0.0
        self._ledger = CommitLedger(CommitPacing(max(COMMIT_INTERVAL_S, apart_s), spacing_s=apart_s))
        self._outside = OutsideCommits()
        self._fatal: list[EhkafkaError] = []
        self._committer = Committer(
            self._ledger,
            clock=time.monotonic,
            emit=self._report,
            fatal=self._fatal.append,
            commits=self._outside,
        )
        self._positions: dict[TopicPartition, Position] = {}
        self._epochs = itertools.count(1)
        self._credential = CredentialWatch(self._endpoint.credential, self._report)
        self._consumer: Consumer | None = None
        # Set once: nothing more is committed in this run.
        self._is_over = False

    def finished(self, offset_json: Any) -> None:
        """Take how far all is finished, and commit it when that is due; the first time before it returns.

        Raises `GroupInUseError` until a commit was stored, where the group has members; `EndpointError` where
        the broker denies it.
        """
        if self._is_over:
            return
        self._note(StreamOffset.from_json(offset_json))
        consumer = self._client()
        self._listen(consumer, 0.0)
        if self._is_over or not self._ledger.due(time.monotonic(), 0):
            return
        if self._committer.acknowledged:
            self._committer.send(consumer, self._positions, 0)
        else:
            self._commit_now(consumer)

    def rest(self, *, is_last: bool) -> None:
        """Commit what is left and wait for it: there is nothing new. `is_last`: the query ends with this."""
        if self._is_over or not self._ledger.dirty(self._positions):
            return
        consumer = self._client()
        ends_s = time.monotonic() + ANSWER_S
        # A commit that is under way could come after this one, and take it back.
        while is_last and self._ledger.in_flight is not None and time.monotonic() < ends_s:
            self._listen(consumer, _POLL_S)
        if not self._is_over and (is_last or self._ledger.due(time.monotonic(), 0)):
            self._commit_now(consumer)

    def close(self) -> None:
        """Close the client, if there is one."""
        self._credential.stop()
        if self._consumer is not None:
            close_within(self._consumer, ANSWER_S)

    def _note(self, offset: StreamOffset) -> None:
        for gone in self._positions.keys() - offset.positions.keys():
            del self._positions[gone]
            self._ledger.ended(gone)
        for partition, at in offset.positions.items():
            before = self._positions.get(partition, Position(0, at + 1))
            if at < before.next_offset:
                # New, or of a recreated topic: in one epoch nothing is ever lowered.
                before = before._replace(epoch=next(self._epochs))
                self._ledger.assigned(partition, before.epoch, None)
            if at != before.next_offset:
                self._positions[partition] = before._replace(next_offset=at)

    def _client(self) -> Consumer:
        """Return the client, with the key of now; the first time refuse a group that has members."""
        if self._consumer is None:
            group = str(self._options.group)
            members = members_of(Target(endpoint=self._endpoint, group=group), group, self._topic, ANSWER_S)
            if members:
                shown = names(member.name for member in members)
                raise self._in_use(f"it has {counted(len(members), 'member')}, {shown}")
            self._consumer = open_reader(self._options, [], on_commit=self._outside.on_commit)
            self._credential.start(self._consumer)
        self._credential.apply()
        return self._consumer

    def _commit_now(self, consumer: Consumer) -> None:
        self._committer.commit_now(consumer, self._positions, ANSWER_S)
        self._take_refusal()

    def _listen(self, consumer: Consumer, timeout_s: float) -> None:
        consumer.consume(1, timeout_s)
        self._committer.take_answers()
        self._take_refusal()

    def _take_refusal(self) -> None:
        """End the commits that are refused for good: with an error until one was stored, then with a line."""
        if self._committer.is_transient and not self._fatal:
            return
        refused = f"the broker refuses a commit from outside ({self._committer.problem})"
        error = self._fatal[0] if self._fatal else self._in_use(refused)
        if not self._committer.acknowledged:
            raise error
        self._is_over = True
        _LOG.warning("%s The query continues, and commits nothing more in this run.", ended(str(error)))

    def _report(self, event: Event) -> None:
        # What ends the commits has a line of its own.
        if isinstance(event, CommitFailed) and event.retriable:
            _LOG.warning("%s: %s", self._whose, event.sentence())

    @property
    def _whose(self) -> str:
        return f"The group {self._options.group!r} on {self._endpoint.name}"

    def _in_use(self, why: str) -> GroupInUseError:
        return GroupInUseError(
            f"{self._whose} is in use: {ended(why)} commitOffsets=true would move it under its consumers. "
            "Give the query a groupId of its own; or stop them, wait until their session has ended, and "
            "start again."
        )
