"""What is not here: who has a partition, as far as the broker tells, and the pages of other members.

Not from an event loop: it asks the broker and the mirror's store.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from ehkafka.checkpoints.layout import namespace_of
from ehkafka.checkpoints.stores.store import StoreError
from ehkafka.checks.target import Target
from ehkafka.offsets.members import members_of
from ehkafka.offsets.owners import SILENT_S, read_owners
from ehkafka.run.steer.names import parse_head, parse_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.http.served import Served

ANSWER_S: Final = 3.0
# Between two looks for the pages of others: owners write as often.
PAGES_EVERY_S: Final = 30.0
_LOG = logging.getLogger(__name__)


def who_has(served: Served, name: str) -> str:
    """Return a sentence for the partition of a key's or partition's name; empty where it is unknown."""
    head = parse_head(name)
    partition = parse_partition(name) if head is None else head[0]
    if partition is None:
        return ""
    target = Target.of_app(served)
    members = members_of(target, target.group or "", partition.topic, ANSWER_S) or []
    for member in members:
        if partition.partition in member.partitions:
            owner = f"{member.host} ({member.client})"
            return f"Partition {partition.partition} of {partition.topic} is with {owner}."
    return ""


class OtherPages:
    """The pages of other members, by what stands next to the partitions that they own in the mirror."""

    def __init__(self, served: Served, own: str | None) -> None:
        """`own` is where this one's page is: it is no other's."""
        self._served = served
        self._own = own
        self._store: CheckpointStore | None = None
        self._next_s = float("-inf")
        # Replaced as a whole: any thread reads it.
        self.found: list[dict[str, str]] = []

    def refresh(self) -> None:
        """Read them, if that is due. One thread at a time."""
        mirror = self._served.mirror
        if mirror is None or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + PAGES_EVERY_S
        try:
            self._store = self._store or mirror.open_store()
            self.found = sorted(self._read(mirror, self._store), key=lambda one: one["name"])
        except StoreError as error:  # those that were known stay; the mirror says what is wrong
            _LOG.debug("The pages of other members cannot be read: %s", error)

    def _read(self, mirror: MirrorChoice, store: CheckpointStore) -> Iterator[dict[str, str]]:
        namespace = mirror.namespace or namespace_of(self._served.endpoint.name)
        now_ms, seen = time.time() * 1000, {self._own}
        for topic in self._served.topics:
            for owner, modified_at_ms in read_owners(
                store, namespace, self._served.settings.group, topic
            ).values():
                is_there = not owner.is_released and now_ms - modified_at_ms < SILENT_S * 1000
                if owner.url and is_there and owner.url not in seen:
                    seen.add(owner.url)
                    yield {"url": owner.url, "name": owner.owner}
