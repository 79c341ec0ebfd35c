"""What the server.properties of all nodes say: how they replicate, and times made short. Values only."""

from __future__ import annotations

from typing import Final

REPLICAS: Final = 3
IN_SYNC_MIN: Final = 2
# More than one, so that the coordinators of groups and transactions are spread over the nodes; the default of
# 50 costs seconds at each move.
INTERNAL_PARTITIONS: Final = 3


def replication(nodes: int) -> dict[str, str | int]:
    """Return how a cluster of so many nodes replicates."""
    replicas = min(REPLICAS, nodes)
    in_sync_min = min(IN_SYNC_MIN, nodes)
    partitions = INTERNAL_PARTITIONS if nodes > 1 else 1
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync_min,
        "unclean.leader.election.enable": "false",
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": partitions,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync_min,
        "transaction.state.log.num.partitions": partitions,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync_min,
    }


QUICK: Final[dict[str, str | int]] = {
    # A node that neither answers nor fetches loses its leaderships after 2 s (9 s and 30 s by default).
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 2000,
    "replica.socket.timeout.ms": 2000,
    # A lost controller is replaced after 1.5 s; a request into a black hole is given up after as much.
    "controller.quorum.fetch.timeout.ms": 1500,
    "controller.quorum.election.timeout.ms": 750,
    "controller.quorum.election.backoff.max.ms": 500,
    "controller.quorum.request.timeout.ms": 1500,
    "controller.socket.timeout.ms": 2000,
    "request.timeout.ms": 5000,
    # Only faults and `move_leaders` move a leader.
    "auto.leader.rebalance.enable": "false",
    # Else a member that was killed leaves its transaction open for 10 s more.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    # Members of KIP-848 groups that die are missed soon, too.
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
    # Every listener has its threads, and there are a dozen of listeners.
    "num.network.threads": 1,
    "num.io.threads": 4,
}
