"""What the common errors of librdkafka and of brokers usually mean, and what to do next.

Pure text by error name, so that it can be read and reviewed without a client. Most come from questions
that users of Event Hubs asked in public. Used by `client.describe_error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNREACHABLE = (
    "no broker can be reached: check host and port, a firewall or private endpoint that lets port 9093 out"
    " (Event Hubs; its emulator and many brokers use 9092), and that the broker runs"
)
_REJECTED = (
    "the broker did not accept the credential: check that the connection string is whole and its access"
    " key not rotated, or with Entra ID that the token is for this namespace and local time is right; a"
    " disabled local authentication of the namespace refuses every access key"
)
_LEADER_MOVES = (
    "the partition's leader is moving or restarting, which takes seconds, and the client retries: if the"
    " error lasts, look for brokers that are down or overloaded"
)
_WRONG_GENERATION = (
    "the group has rebalanced: when this member has rejoined the group, the commit is sent again; if other"
    " members have the partitions by then, those members handle these records again"
)

_FORGOTTEN_ID = (
    "the broker has forgotten the producer's ID, as Event Hubs does after time-outs and its own upgrades:"
    " this producer can send nothing more, and a new producer gets a new ID"
)

_BROKEN_BATCH = (
    "the batch's bytes are damaged: check the producer that wrote the batch, and the disks of the partition's"
    " leader"
)

CAUSES: Mapping[str, str] = {
    "_ALL_BROKERS_DOWN": _UNREACHABLE,
    "_TRANSPORT": (
        "the connection broke or could not be opened. A network change, an idle time-out or a broker restart"
        " passes; if the client never connects, check host, port (Event Hubs: 9093), firewall, and"
        " security.protocol: a plaintext client at a TLS port gets this error, too"
    ),
    "_RESOLVE": "the host name has no address: check its spelling, and the DNS zone of a private endpoint",
    "_AUTHENTICATION": _REJECTED,
    "SASL_AUTHENTICATION_FAILED": _REJECTED,
    "UNSUPPORTED_SASL_MECHANISM": (
        "the broker does not offer this SASL mechanism: for Event Hubs, use PLAIN with a connection string,"
        " or OAUTHBEARER with Entra ID"
    ),
    "TOPIC_AUTHORIZATION_FAILED": (
        "the credential may not use this topic: give its policy Listen (to consume) or Send (to produce), or"
        " its identity the role Azure Event Hubs Data Receiver or Sender; a connection string with EntityPath"
        " opens only that event hub; a namespace of the Basic tier has no Kafka endpoint, and answers with"
        " this error, too"
    ),
    "GROUP_AUTHORIZATION_FAILED": (
        "the credential may not use this consumer group: give its policy Listen, or its identity the role"
        " Azure Event Hubs Data Receiver; on Apache Kafka add an ACL for READ on the group"
    ),
    "CLUSTER_AUTHORIZATION_FAILED": (
        "the credential has no permission for this request on the cluster: for an idempotent producer on"
        " Apache Kafka before 2.8, add the ACL IDEMPOTENT_WRITE"
    ),
    "UNKNOWN_TOPIC_OR_PART": (
        "the topic does not exist here: check its spelling and case, that the event hub was created and that"
        " the endpoint is the namespace that has it"
    ),
    "_UNKNOWN_TOPIC": "the topic does not exist here: check its spelling, and create it if it is missing",
    "_UNKNOWN_PARTITION": "the topic has fewer partitions than that: check the partition's number",
    "NOT_LEADER_FOR_PARTITION": _LEADER_MOVES,
    "LEADER_NOT_AVAILABLE": _LEADER_MOVES,
    "REPLICA_NOT_AVAILABLE": _LEADER_MOVES,
    "OFFSET_NOT_AVAILABLE": _LEADER_MOVES,
    "FENCED_LEADER_EPOCH": _LEADER_MOVES,
    "UNKNOWN_LEADER_EPOCH": _LEADER_MOVES,
    "_BAD_MSG": _BROKEN_BATCH,
    "_BAD_COMPRESSION": _BROKEN_BATCH,
    "INVALID_MSG": _BROKEN_BATCH,
    "_NOT_IMPLEMENTED": (
        "the batch has a compression or a format that this client does not know: check what the producer"
        " and the broker write"
    ),
    "_SSL": (
        "the TLS handshake failed: check that the port speaks TLS, that no proxy replaces the certificate"
        " and, for an authority of your own, ssl.ca.location"
    ),
    "_TIMED_OUT": (
        "no answer in time: the broker is slow, throttling or not reachable; if the client has never"
        " connected, check host, port and firewall"
    ),
    "REQUEST_TIMED_OUT": "the broker is overloaded or throttles: it did not finish the request in time",
    "CONCURRENT_TRANSACTIONS": "the broker is still ending the last transaction of this transactional ID",
    "THROTTLING_QUOTA_EXCEEDED": "the broker throttles: raise throughput units or quota, or lower the load",
    "POLICY_VIOLATION": (
        "on Event Hubs the namespace is above its throughput, so that an answer would come later than the"
        " client waits: raise throughput units, or send less; on other brokers, a policy forbids the request"
    ),
    "FENCED_INSTANCE_ID": (
        "another process is in the group with the same group.instance.id: give each process its own,"
        " or stop the other one"
    ),
    "UNRELEASED_INSTANCE_ID": (
        "another process is still in the group with the same group.instance.id: stop that process, or wait"
        " until its session has ended"
    ),
    "_MAX_POLL_EXCEEDED": (
        "the app did not poll for max.poll.interval.ms, so other members got its partitions: look for a"
        " process that was paused or had no CPU time, or for a poll thread that was blocked"
    ),
    "INVALID_SESSION_TIMEOUT": (
        "the broker refuses this session.timeout.ms: set 6000 to 300000 for Event Hubs, and for Apache Kafka"
        " a value from the broker's group.min.session.timeout.ms to group.max.session.timeout.ms"
    ),
    "INCONSISTENT_GROUP_PROTOCOL": (
        "the group's other members use another assignor: a group is eager or cooperative as a whole;"
        " change all members in two steps, or use a new group"
    ),
    "INVALID_GROUP_ID": "the broker refuses this group name, which is empty or too long",
    "GROUP_MAX_SIZE_REACHED": "the group has all the members that the broker's group.max.size allows",
    "ILLEGAL_GENERATION": _WRONG_GENERATION,
    "UNKNOWN_MEMBER_ID": (
        "the group no longer has this member: the member's session has expired, or another program commits"
        " for a group that has live members"
    ),
    "REBALANCE_IN_PROGRESS": "the group is rebalancing: the request is sent again after the rebalance",
    "OFFSET_METADATA_TOO_LARGE": "the commit's metadata is too long: Event Hubs allows 1024 bytes",
    "OFFSET_OUT_OF_RANGE": (
        "the log does not have this offset: retention deleted the record, or the topic was recreated"
    ),
    "_AUTO_OFFSET_RESET": (
        "the group has no valid position: nothing was committed, or retention deleted the record there; set"
        " with start= where reading begins"
    ),
    "INVALID_PRODUCER_EPOCH": _FORGOTTEN_ID,
    "INVALID_PRODUCER_ID_MAPPING": _FORGOTTEN_ID,
    "UNKNOWN_PRODUCER_ID": _FORGOTTEN_ID,
    "MSG_SIZE_TOO_LARGE": (
        "the record is larger than the broker allows: 1 MB on Event Hubs, max.message.bytes on Apache Kafka"
    ),
    "_MSG_TIMED_OUT": (
        "the record could not be delivered within message.timeout.ms: the broker is unreachable or throttling"
    ),
    "_QUEUE_FULL": "the producer's queue is full: send more slowly, or look why the broker is slow",
    "UNSUPPORTED_VERSION": (
        "the broker does not support this request: the broker is too old, or (Event Hubs) lacks the feature"
    ),
    "_UNSUPPORTED_FEATURE": "the broker or this build of the client lacks the feature: check both versions",
    "_FATAL": "the client cannot recover: restart the process; the error's text has the reason",
}
"""librdkafka's name of the error → its usual cause and the next step."""

LEADER_MOVES = frozenset(name for name, cause in CAUSES.items() if cause is _LEADER_MOVES)
"""Names of the errors that a question about a log may meet for seconds, and that asking again fixes."""

CAUSE_UNKNOWN = (
    "no usual cause is known: look at the broker's log, or set the property debug=broker,security,cgrp"
)
