"""Which probes there are, in their order, and what a person is shown before the first one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _live.probes import (
    amqp,
    backup,
    commits,
    compaction,
    groups,
    idle,
    login,
    records,
    rotation,
    sizes,
    throttling,
    topics,
    transactions,
    versions,
)
from _live.run import TOTAL_S
from ehkafka.errors import ConfigurationError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _live.given import Given
    from _live.probe import Probe

# The longest wait and what slows other clients come last.
PROBES: tuple[Probe, ...] = (
    *login.PROBES,
    *versions.PROBES,
    *topics.PROBES,
    *records.PROBES,
    *sizes.PROBES,
    *commits.PROBES,
    *groups.PROBES,
    *compaction.PROBES,
    *transactions.PROBES,
    *backup.PROBES,
    *amqp.PROBES,
    *rotation.PROBES,
    *idle.PROBES,
    *throttling.PROBES,
)
PRICES = "https://azure.microsoft.com/pricing/details/event-hubs/"
# An ingress event is up to 64 KB.
EVENT_KILOBYTES = 64


def chosen(names: Sequence[str] | None) -> tuple[Probe, ...]:
    """Return the probes of these names, with all that they need; all without names.

    Raises `ConfigurationError` where there is no such probe.
    """
    if not names:
        return PROBES
    known = [probe.name for probe in PROBES]
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(f"--only {unknown[0]!r:.40} is no probe: there are {', '.join(known)}.")
    wanted: set[str] = set(names)
    for probe in reversed(PROBES):
        if probe.name in wanted:
            wanted |= set(probe.needs)
    return tuple(probe for probe in PROBES if probe.name in wanted)


def shown(given: Given, probes: Sequence[Probe], prefix: str) -> str:
    """Return what the run does, creates and costs."""
    tried = [probe for probe in probes if probe.permission is None or given.may_flood]
    records = sum(probe.records for probe in tried)
    megabytes = sum(probe.kilobytes for probe in tried) / 1000
    events = records + int(megabytes * 1000 / EVENT_KILOBYTES)
    minutes = sum(probe.expected_s for probe in tried) / 60
    lines = [
        f"{counted(len(tried), 'probe')} on {given.namespace}",
        f"They take about {minutes:.0f} minutes; after {TOTAL_S / 60:.0f} minutes the run ends in any case.",
        "",
        f"It creates, under names that begin with {prefix}, and removes at its end:",
        *(f"  {probe.name:<13} {probe.creates}" for probe in tried if probe.creates),
        "",
        f"It sends up to {records:,} records, {megabytes:.1f} MB. What that costs:",
        f"  Standard             {events:,} ingress events at most, charged per million, and what the",
        "                       namespace's throughput units cost anyway",
        "  Premium, Dedicated   nothing beyond what the namespace costs anyway",
        f"  Prices: {PRICES}",
    ]
    if given.own_topic is not None:
        lines.append(f"  The records in {given.own_topic} stay until its retention removes them.")
    if given.mirror is not None:
        lines.append("  A few dozen writes and reads of blobs.")
    if given.may_flood:
        lines += [
            "",
            "--throttle sends 5 MB/s for 20 s. It slows all clients of the namespace meanwhile, and with",
            "auto-inflate it may raise the throughput units, which do not go down by themselves.",
        ]
    lines += ["", "Other topics, groups and blobs are neither read nor changed; no key is regenerated."]
    return "\n".join(lines)
