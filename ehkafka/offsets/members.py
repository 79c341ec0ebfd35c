"""Who is in a group, as far as the broker tells: a hint, because it may neither know nor be allowed to say.

Event Hubs lists no idle groups and has failed to describe an empty one; the embedded broker has no
administration. Nothing may depend on an answer.

Where the broker offers no DescribeGroups, librdkafka answers with an error, and so nothing is asked before.
Deleting groups there ends the process (librdkafka#3663): nothing in this package does so.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ehkafka.endpoint.properties.layers import admin_properties
from ehkafka.endpoint.silent import SILENT

if TYPE_CHECKING:
    from ehkafka.checks.target import Target


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One consumer of a group, and what it was given of a topic."""

    client: str
    host: str
    partitions: tuple[int, ...]
    # Its own in the group; clients of one host may share all the rest. Empty where the broker does not tell.
    id: str = ""

    @property
    def name(self) -> str:
        """What tells it from the group's other members: its id, which begins with its client's."""
        return f"{self.id or self.client} ({self.host})"


def members_of(target: Target, group: str, topic: str, timeout_s: float) -> list[GroupMember] | None:
    """Return the members; None when the broker does not say."""
    admin = AdminClient(admin_properties(target.endpoint), logger=SILENT)
    try:
        found = admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result()
    except KafkaException as error:
        # Kafka 4 says so of a group without members and commits; older brokers call it dead.
        return [] if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND else None
    return [
        GroupMember(
            str(member.client_id),
            str(member.host),
            _partitions(member, topic),
            str(member.member_id or ""),
        )
        for member in found.members
    ]


def similar_groups(target: Target, group: str, timeout_s: float) -> list[str]:
    """Return groups of a similar name; none where the broker does not list them."""
    admin = AdminClient(admin_properties(target.endpoint), logger=SILENT)
    try:
        found = admin.list_consumer_groups(request_timeout=timeout_s).result()
    except KafkaException:
        return []
    return difflib.get_close_matches(group, [one.group_id for one in found.valid if one.group_id != group])


def _partitions(member: object, topic: str) -> tuple[int, ...]:
    assignment = getattr(member, "assignment", None)
    given = getattr(assignment, "topic_partitions", None) or ()
    return tuple(sorted(one.partition for one in given if one.topic == topic))
