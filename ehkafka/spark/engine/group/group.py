"""The consumer group's side of a query: the way to the broker, where partitions begin, who else is there.

On the driver. `open`, `begin` and `take` in the thread that starts the query; from `serve` on the consumer
belongs to the thread that follows it. Nothing here joins the group: Kafka takes commits from outside only
while a group has no member, which is also how a live consumer is noticed. Other runs on Spark are noticed by
their commits (`ownership`).
"""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from ehkafka.checks.inspection import Overdue, bounded
from ehkafka.endpoint.client import check_client_version
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.errors import GroupInUseError
from ehkafka.positions.log_bounds import learn_leaders
from ehkafka.positions.without_commit import refuse_waiting
from ehkafka.progress.commit_transports import OutsideCommits
from ehkafka.progress.metadata import LogFacts
from ehkafka.progress.saving import metadata_bytes_max
from ehkafka.records import TopicPartition
from ehkafka.recovery.wiring import check_recovery
from ehkafka.run.assembly import Assembly
from ehkafka.run.log_identity import LogIdentity
from ehkafka.run.mirroring import Mirroring, run_name
from ehkafka.run.options import AppOptions
from ehkafka.run.reach import Reach
from ehkafka.run.resetting import reset_group
from ehkafka.spark.engine.group.begins import disproved, in_new_logs, inside_the_logs, logs_of, offsets_of
from ehkafka.spark.engine.group.ownership import Commit, GroupWatch, Tag
from ehkafka.spark.engine.group.run_commits import CommittedGroup, RunCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.spark.engine.group.begins import Logs
    from ehkafka.spark.engine.group.hand_over import CheckpointState
    from ehkafka.telemetry.bus import EventBus

MEMBERS_S = 5.0
# How long a start waits for the broker to say where partitions begin, and between two questions.
BEGIN_S, BEGIN_AGAIN_S = 6.0, 0.2
# How long a last commit that came too late may keep the client from being closed.
ANSWER_S = 5.0
_LOG = logging.getLogger("ehkafka.spark")
_LOCK = threading.Lock()
# Under the lock: the run of each endpoint, group and topic.
_RUNS: dict[tuple[str, str, str], str] = {}


class Group:
    """One group while Spark handles its records."""

    def __init__(self, app: AppOptions, bus: EventBus, fail: Callable[[EhkafkaError], None]) -> None:
        """Raise `ConfigurationError` for what cannot work; nothing is opened."""
        self._app = app
        self._bus = bus
        self._fail = fail
        self.outside = CommittedGroup(app.endpoint, app.settings.group)
        # For errors, and in the tags in its commits.
        self.run = run_name()
        # Its thread asks at the start alone: a run on Spark tells logs by its offsets.
        self._identity = LogIdentity(app, bus, on_death=lambda _error: None)
        self._mirroring = Mirroring(app, bus)
        self._outside = OutsideCommits()
        assembly = Assembly(
            # What is the user's own runs in the tasks.
            app=AppOptions(endpoint=app.endpoint, settings=app.settings, specs=app.specs, mirror=app.mirror),
            bus=bus,
            fail=self._take_fatal,
            worker_died=lambda _error: None,
            user_code_failed=lambda _where, _error: None,
            exit_now=lambda: False,
        )
        check_recovery(app.specs, app.settings.on_parked_full)
        self._context = assembly.context(
            self._identity,
            self._mirroring,
            lambda by_ids: partial(disproved, by_ids, self._identity.bounds_asker),
            commits=self._outside,
        )
        self._credential = CredentialWatch(app.endpoint.credential, bus.emit)
        self._reach = Reach(app, bus.emit)
        self._consumer: Consumer | None = None
        # What the group had committed at `begin`, of partitions with a commit.
        self.committed: dict[TopicPartition, Commit] = {}
        # Those of them whose commit is known to be of another log: it decides nothing.
        self.disproved: frozenset[TopicPartition] = frozenset()
        # What is known of the log and the group of each partition.
        self._facts: dict[TopicPartition, LogFacts] = {}
        self._logs: Logs = {}
        self._commits: RunCommits | None = None
        # Whether the broker keeps the metadata of commits, known since `take`.
        self.keeps_tags = False

    def open(self) -> None:
        """Reach the broker; all topics are there, those that are written to as well. Raises what is wrong."""
        check_client_version()
        properties = self._reach.properties()
        # This client never joins the group, so it is no static member either.
        properties.pop("group.instance.id", None)
        self._consumer = self._reach.open(
            properties,
            on_error=lambda _consumer, _error: self._consumer is not None,
            on_commit=self._outside.on_commit,
            throttle_cb=self._context.brokers.throttle.on_throttle,
        )
        self._context.begins.positions.first_counts.begin(self._reach.partitions)
        self._credential.start(self._consumer)
        self._mirroring.start()

    def reset(self) -> None:
        """Take the group back to `start`, if the settings ask for it. Raises `GroupInUseError`."""
        app, start_of = self._app, self._context.begins.positions.start_of
        reset_group(app.endpoint, app.settings, app.topics, start_of, self._bus.emit)

    def begin(self, known_topics: Collection[str] = ()) -> dict[TopicPartition, int]:
        """Return where each partition begins: at the group's commit, else the mirror's, else at `start`.

        A new partition of a topic that was read before begins with its log; `known_topics` are those of a
        checkpoint.
        """
        counts, topics = self._reach.partitions, self._app.topics
        partitions = [TopicPartition(one, number) for one in topics for number in range(counts[one])]
        ends_s = time.monotonic() + BEGIN_S
        while True:
            begins, waiting = self._context.begins.positions.find(self._opened, partitions)
            if not waiting or time.monotonic() >= ends_s:
                break
            time.sleep(BEGIN_AGAIN_S)  # the leader of a topic that was just made may not know it yet
            learn_leaders(self._opened, self._app.settings.connect_s)
        refuse_waiting(waiting)
        # One that is of another log decides nothing, but it is what the group has.
        found = {one.partition: one.committed or one.disproved for one in begins}
        self.committed = {
            p: Commit(at.offset, at.metadata or "") for p, at in found.items() if at is not None
        }
        self.disproved = frozenset(one.partition for one in begins if one.disproved is not None)
        self._facts = {one.partition: one.facts for one in begins}
        asked = [one.partition for one in begins]
        self._logs = logs_of(self._opened, asked, self._app.settings.connect_s)
        return offsets_of(begins, self._logs, known_topics)

    def begin_over(self, standing: CheckpointState) -> dict[TopicPartition, int]:
        """Return where partitions begin whose checkpoint is of another log. After `begin`.

        Raises `OffsetGapError` by `on_out_of_range`.
        """
        reasons = self._context.begins.positions.lookups.disproved(
            {
                one: LogFacts(topic_id=standing.topic_ids.get(one.topic), witness=standing.witnesses.get(one))
                for one in standing.finished.keys() & self._logs.keys()
            }
        )
        return in_new_logs(standing.finished, reasons, self._logs, self._context, reported=self.disproved)

    def refuse_members(self) -> None:
        """Raise `GroupInUseError` where the broker tells of members; `take` is the proof."""
        self.outside.refuse_members(self._app.topics[0], min(MEMBERS_S, self._app.settings.connect_s))

    def take(
        self, starts: Mapping[TopicPartition, int], checkpoint: str = "", *, goes_on: bool = False
    ) -> dict[TopicPartition, int]:
        """Take the group by committing where the query begins, and return that.

        `checkpoint` is the name of its checkpoint, `goes_on` tells whether there is something in it. Raises
        `GroupInUseError` for a group with consumers or one that was moved since `begin`, `OffsetGapError` by
        `on_out_of_range`, `EndpointError`.
        """
        context = self._context
        starts = inside_the_logs(starts, self._logs, context, has_checkpoint=goes_on)
        watch = GroupWatch(Tag(self.run, checkpoint), self.committed, str(self.outside), self._bus.emit)
        self._commits = RunCommits(
            context.ledger,
            context.committer,
            self._opened,
            self.outside,
            watch=watch,
            begins=context.begins,
            bytes_max=metadata_bytes_max(is_event_hubs=self._app.endpoint.is_event_hubs),
        )
        self._commits.take(starts, self._app.settings.connect_s, facts=self._facts)
        self.keeps_tags = watch.keeps_tags
        return starts

    @property
    def commits(self) -> RunCommits:
        """The run's commits, since `take`."""
        assert self._commits is not None
        return self._commits

    def serve(self, timeout_s: float) -> None:
        """Let the client's callbacks through, use a new key, and commit what is due."""
        self._credential.apply()
        self.commits.serve(timeout_s)

    def close(self, *, deadline_s: float) -> None:
        """Let the mirror write what it owes, and close the client, which may wait for the last answer."""
        self._identity.stop()
        self._mirroring.stop(deadline_s=deadline_s, at_once=False)
        self._credential.stop()
        if self._consumer is None:
            return
        try:
            bounded(self._consumer.close, ANSWER_S, "close")
        except Overdue:
            _LOG.warning(
                "%s: the broker has not answered the last commit, so the client is not closed. It goes with "
                "the process, and other runs can have the group. Look at the broker and the network.",
                self.outside,
            )

    @property
    def _opened(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer

    def _take_fatal(self, error: EhkafkaError) -> None:
        if self._commits is not None and self._commits.fatal is None:
            self._commits.fatal = error
        self._fail(error)


def reserve(endpoint: str, group: str, topics: Collection[str], run: str) -> None:
    """Take a group's topics for a run. Raises `GroupInUseError`, and then takes none."""
    wanted = [(endpoint, group, topic) for topic in topics]
    with _LOCK:
        for key in wanted:
            if (other := _RUNS.get(key)) is not None:
                raise GroupInUseError(
                    f"The group {group!r} on {endpoint} is in use: this process runs it on Spark already "
                    f"(topic {key[2]!r}, run {other}). Two runs would handle every record twice. Stop the "
                    "other run first, or give this run a group of its own."
                )
        _RUNS.update(dict.fromkeys(wanted, run))


def give_back(run: str) -> None:
    """Let go what the run has, if anything."""
    with _LOCK:
        for key in [key for key, other in _RUNS.items() if other == run]:
            del _RUNS[key]
