"""The commits of a plain query with `commitOffsets=true`: for tools that show lag, and for a later consumer.

Only Spark's checkpoint decides where the query continues; nothing here moves it. Whenever Spark asks where
the next batch ends, all before that batch is finished, so this is committed. From outside of the group, which
takes commits only while it has no member. In Spark's planning process, on its one thread; loaded with the
option only.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.checks.inspection import close_within
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.limits import COMMIT_INTERVAL_S_MIN
from ehkafka.events import CommitFailed
from ehkafka.progress.commit_transports import OutsideCommits
from ehkafka.progress.committer import Committer
from ehkafka.progress.ledger import CommitLedger, CommitPacing
from ehkafka.progress.pacing import COMMIT_INTERVAL_S
from ehkafka.ranges.client import open_reader
from ehkafka.spark.engine.group.run_commits import CommittedGroup, RunCommits
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.wording import ended

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.spark.source.options import SourceOptions

_LOG = logging.getLogger("ehkafka.spark")
# What a wait for an answer may take of a query's time, and the end of the client.
ANSWER_S: Final = 5.0
_ADVICE: Final = (
    "commitOffsets=true would move it under its consumers. Give the query a groupId of its own; or stop "
    "them, wait until their session has ended, and start again."
)


class QueryCommits:
    """What one run of a query commits. Once a commit was stored it never ends the query."""

    def __init__(self, options: SourceOptions, topic: str) -> None:
        self._topic = topic
        self._options = options
        self._endpoint = options.broker()
        self._group = CommittedGroup(self._endpoint, str(options.group), _ADVICE)
        apart_s = COMMIT_INTERVAL_S_MIN if self._endpoint.is_event_hubs else 0.0
        self._ledger = CommitLedger(CommitPacing(max(COMMIT_INTERVAL_S, apart_s), spacing_s=apart_s))
        self._outside = OutsideCommits()
        self._committer = Committer(
            self._ledger,
            clock=time.monotonic,
            emit=self._report,
            fatal=self._take_fatal,
            commits=self._outside,
        )
        self._credential = CredentialWatch(self._endpoint.credential, self._report)
        self._consumer: Consumer | None = None
        self._commits: RunCommits | None = None
        # Set once: nothing more is committed in this run.
        self._is_over = False

    def finished(self, offset_json: Any) -> None:
        """Take how far all is finished, and commit it when that is due; the first time before it returns.

        Raises `GroupInUseError` until a commit was stored, where the group has members; `EndpointError` where
        the broker denies it.
        """
        if self._is_over:
            return
        commits = self._opened()
        commits.note(StreamOffset.from_json(offset_json), None)
        if self._committer.acknowledged:
            commits.serve(0.0)
        elif self._ledger.due(time.monotonic(), 0):
            commits.commit_now(ANSWER_S)
        self._take_refusal(commits)

    def rest(self, *, is_last: bool) -> None:
        """Commit what is left and wait for it: there is nothing new. `is_last`: the query ends with this."""
        if self._is_over:
            return
        commits = self._opened()
        if is_last:
            commits.finish(ANSWER_S)
        elif commits.is_dirty and self._ledger.due(time.monotonic(), 0):
            commits.commit_now(ANSWER_S)
        self._take_refusal(commits)

    def close(self) -> None:
        """Close the client, if there is one."""
        self._credential.stop()
        if self._consumer is not None:
            close_within(self._consumer, ANSWER_S)

    def _opened(self) -> RunCommits:
        """Return what commits, with the key of now; the first time refuse a group that has members."""
        if self._commits is None:
            self._group.refuse_members(self._topic, ANSWER_S)
            self._consumer = open_reader(self._options, [], on_commit=self._outside.on_commit)
            self._credential.start(self._consumer)
            self._commits = RunCommits(self._ledger, self._committer, self._consumer, self._group)
        self._credential.apply()
        return self._commits

    def _take_fatal(self, error: EhkafkaError) -> None:
        assert self._commits is not None
        self._commits.fatal = self._commits.fatal or error

    def _take_refusal(self, commits: RunCommits) -> None:
        """End the commits that are refused for good: with an error until one was stored, then with a line."""
        if (error := commits.lost()) is None:
            return
        if not self._committer.acknowledged:
            raise error
        self._is_over = True
        _LOG.warning("%s The query continues, and commits nothing more in this run.", ended(str(error)))

    def _report(self, event: Event) -> None:
        # What ends the commits has a line of its own.
        if isinstance(event, CommitFailed) and event.retriable:
            _LOG.warning("%s: %s", self._group, event.sentence())
