"""Reports brokers that do not answer, once for each silence. Poll thread, twice a second."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.intake.contact import Contact
    from ehkafka.intake.owned import OwnedPartitions
    from ehkafka.records import TopicPartition


class Silence:
    """Remembers which silence is reported."""

    def __init__(self) -> None:
        self._reported: frozenset[str] = frozenset()

    def check(self, contact: Contact, owned: OwnedPartitions, endpoint: str) -> list[str]:
        """Return what began since the last look: no broker answers, or a leader of ours does not."""
        silent = dict(_silences(contact, owned, endpoint))
        reported, self._reported = self._reported, frozenset(silent)
        return [text for name, text in silent.items() if name not in reported]


def _silences(contact: Contact, owned: OwnedPartitions, endpoint: str) -> Iterator[tuple[str, str]]:
    if contact.is_unreachable:
        text = (
            f"no broker of {endpoint} has answered for {contact.silence_s:.0f} s: check that the brokers run "
            "and that this host still reaches them"
        )
        yield endpoint, text
    if contact.is_cut_off:
        return
    silent: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for partition in owned:
        if (owned.logs.silence_s(partition, contact.now_s) or 0.0) >= contact.unreachable_s:
            leader = contact.leaders.get(partition)
            silent[leader.name if leader else "their leader"].append(partition)
    for name, partitions in silent.items():
        text = (
            f"{name} has not answered for {contact.unreachable_s:g} s, so the lag of {names(partitions)} is "
            "unknown: check that it runs, that it leads them, and that this host reaches it"
        )
        yield name, text
