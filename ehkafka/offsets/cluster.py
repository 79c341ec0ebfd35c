"""The topics and groups of a broker, seen from outside: `ehkafka topics` and `ehkafka groups`.

Joins no group and commits nothing. One thread at a time. Sizes and commits are asked as `ehkafka lag` asks
them; the list of groups and the settings of topics are the admin client's, and a broker may refuse both.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.group import read_bounds, read_commits
from ehkafka.checks.inspection import CLOSE_S, Inspection, close_within
from ehkafka.checks.reach import enter, reach_topic, reported
from ehkafka.checks.result import Problem
from ehkafka.checks.target import as_own_group
from ehkafka.endpoint.client import check_client_version, open_admin
from ehkafka.endpoint.properties.layers import admin_properties
from ehkafka.endpoint.silent import SILENT
from ehkafka.offsets.view import PartitionView
from ehkafka.positions.log_bounds import log_bounds
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka.admin import AdminClient

    from ehkafka.checks.target import Target
    from ehkafka.positions.gap import LogBounds

INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's own topics, which no list shows."""
SETTINGS_S: Final = 3.0
"""How long the settings of topics may take: the list does not depend on them."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic. None, or an empty `cleanup`: the broker did not tell; `problem` is why, for its logs."""

    name: str
    partitions: int
    # Offsets between start and end of its logs; compacted and transactional topics have fewer records.
    offsets: int | None
    problem: str = ""
    # -1: records are kept without a limit of time.
    retention_ms: int | None = None
    cleanup: str = ""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: its state in Kafka's word, and the lag of each topic that it commits or is assigned.

    `members` None: the broker does not tell. With a `problem` its commits could not be read.
    """

    name: str
    state: str
    members: int | None
    lags: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""

    @property
    def lag(self) -> int | None:
        """The sum of its topics; None where its commits could not be read."""
        return None if self.problem else sum(self.lags.values())


class Cluster:
    """The broker that a target names; opened and closed as a context manager.

    Entering raises `ConfigurationError`, `EndpointError` or `TopicNotFoundError`; a method `EndpointError`.
    """

    def __init__(self, target: Target, *, timeout_s: float = 10.0) -> None:
        self.target = target
        self._timeout_s = timeout_s
        self._inspection = Inspection(target, timeout_s)

    def __enter__(self) -> Self:
        check_client_version()
        self.target.endpoint.prepare_topics(self.target.topics)
        self._inspection.use(as_own_group(self.target.client_properties()))
        (topic,) = self.target.topics or (None,)
        enter(self._inspection, lambda: reach_topic(self._inspection, topic))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._inspection.close()

    @property
    def _topics(self) -> dict[str, list[TopicPartition]]:
        """The topic of the target, else all that may be seen, with their partitions."""
        cluster = self._inspection.cluster
        assert cluster is not None
        named = self.target.topics or sorted(set(cluster.topics) - INTERNAL)
        return {
            name: [TopicPartition(name, number) for number in sorted(cluster.topics[name].partitions)]
            for name in named
        }

    def topics(self) -> list[TopicView]:
        """Return the topics by name."""
        topics = self._topics
        logs, problems = self._logs(topics)
        settings = self._settings(list(topics))
        views = []
        for name, partitions in topics.items():
            problem, its = problems.get(name, ""), settings.get(name, {})
            offsets = None if problem else sum(logs[one].end - logs[one].start for one in partitions)
            retention = its.get("retention.ms")
            retention_ms = int(retention) if retention is not None else None
            cleanup = its.get("cleanup.policy") or ""
            views.append(TopicView(name, len(partitions), offsets, problem, retention_ms, cleanup))
        return views

    def groups(self) -> Iterator[GroupView]:
        """Yield the groups by name; with a topic, those that commit it or have members that read it."""
        listed = self._listed()
        described = self._described(sorted(listed))
        topics = self._topics
        logs, _ = self._logs(topics)
        for name, state in sorted(listed.items()):
            members, assigned = described.get(name, (None, frozenset[str]()))
            view = self._group(GroupView(name, state, members), assigned, logs)
            if view.lags or view.problem or not self.target.topics:
                yield view

    def _group(
        self, group: GroupView, assigned: Collection[str], logs: Mapping[TopicPartition, LogBounds]
    ) -> GroupView:
        """Return the group with its lags, or with why its commits cannot be read."""
        try:
            commits = self._commits(group.name, logs)
        except Problem as problem:
            return replace(group, problem=self._inspection.cleaner.text(problem.text))
        lags = {one.topic: 0 for one in logs if one.topic in {*assigned, *(where.topic for where in commits)}}
        for one, log in logs.items():
            if one.topic in lags:
                lags[one.topic] += PartitionView(one.partition, log, commits.get(one)).lag
        return replace(group, lags=lags)

    def _commits(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return a group's commits, by a consumer that does not join it; raises `Problem`."""
        asked = [KafkaPartition(*one) for one in partitions]
        if not asked:
            return {}
        self._inspection.begin_step()
        consumer = self._inspection.open({**self._inspection.properties, "group.id": group})
        try:
            found = read_commits(self._inspection, consumer, asked)
        finally:
            close_within(consumer, CLOSE_S)
        return {TopicPartition(one.topic, one.partition): one.offset for one in found if one.offset >= 0}

    def _logs(
        self, topics: Mapping[str, Sequence[TopicPartition]]
    ) -> tuple[dict[TopicPartition, LogBounds], dict[str, str]]:
        """Return the bounds of all logs, and by topic why those of some cannot be read."""
        inspection, asked = self._inspection, [one for its in topics.values() for one in its]
        inspection.begin_step()
        try:
            return log_bounds(inspection.consumer(), asked, inspection.remaining_s), {}
        except KafkaException:
            logs: dict[TopicPartition, LogBounds] = {}
        problems: dict[str, str] = {}
        for name in topics:  # one topic without a leader hides the others
            inspection.begin_step()
            try:
                logs |= read_bounds(inspection, name)
            except Problem as problem:
                problems[name] = inspection.cleaner.text(problem.text)
        return logs, problems

    @cached_property
    def _admin(self) -> AdminClient:
        return open_admin(admin_properties(self.target.endpoint), logger=SILENT)

    def _settings(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings of topics; none where the broker does not tell them."""
        cluster = self._inspection.cluster
        assert cluster is not None
        # Without a controller, as in the embedded broker, librdkafka waits for one until the time is over.
        if not topics or cluster.controller_id not in cluster.brokers:
            return {}
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        answers = self._admin.describe_configs(asked, request_timeout=min(SETTINGS_S, self._timeout_s))
        found = {}
        for resource, future in answers.items():
            with suppress(KafkaException):
                found[resource.name] = {name: entry.value for name, entry in future.result().items()}
        return found

    def _listed(self) -> dict[str, str]:
        """Return the state of each group, in Kafka's word: `stable`, `empty`, `preparing rebalancing`, …."""
        try:
            found = self._admin.list_consumer_groups(request_timeout=self._timeout_s).result()
            refusals = [] if found.valid else found.errors
        except KafkaException as error:
            refusals = list(error.args)
        for refusal in refusals:
            text = f"the broker does not list its groups: {refusal.name()} ({refusal.str()})"
            fix = "For one group, by its name: ehkafka lag TOPIC --group GROUP"
            raise reported(self._inspection, Problem(text, fix))
        return {one.group_id: one.state.name.lower().replace("_", " ") for one in found.valid}

    def _described(self, groups: list[str]) -> dict[str, tuple[int, frozenset[str]]]:
        """Return the number of members and their topics, of the groups that the broker describes."""
        if not groups:
            return {}
        found = {}
        answers = self._admin.describe_consumer_groups(groups, request_timeout=self._timeout_s)
        for name, future in answers.items():
            with suppress(KafkaException):
                members = future.result().members
                its = [one.topic for member in members for one in member.assignment.topic_partitions]
                found[name] = len(members), frozenset(its)
        return found
