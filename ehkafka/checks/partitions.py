"""Step `partitions`: how many the topic has, and whether each has a leader to read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.checks.finding import Finding, NotMeasured, Trouble

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection


def look(inspection: Inspection, subject: str | None) -> Finding:
    """Count them and their leaders."""
    if subject is None:
        raise NotMeasured("no topic named")
    assert inspection.cluster is not None
    partitions = inspection.cluster.topics[subject].partitions
    orphans = sorted(number for number, one in partitions.items() if one.leader < 0)
    leaders = {one.leader for one in partitions.values() if one.leader >= 0}
    facts = {"partitions": len(partitions), "without_leader": orphans}
    if orphans:
        raise Trouble(
            f"{len(orphans)} of {len(partitions)} have no leader: {', '.join(map(str, orphans[:10]))}",
            "Start the brokers that hold them, and look at the cluster's health.",
            facts=facts,
        )
    if not partitions:
        raise Trouble("the topic has none", "Wait until it has been made, or create it anew.", facts=facts)
    brokers = "one broker" if len(leaders) == 1 else f"{len(leaders)} brokers"
    return Finding(f"{len(partitions)}, each with a leader, on {brokers}", facts)
