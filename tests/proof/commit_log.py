"""Every commit that the brokers have, in its order: what `__consumer_offsets` holds of the groups of a chain.

A commit's key is its kind (0 or 1), the group, the topic and the partition; its value begins with its
version and its offset, and has a text behind them, as Kafka's `OffsetCommitKey.json` and
`OffsetCommitValue.json` say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer

from tests.kit.faults.frames import Fields
from tests.proof.reader import CLIENT, Reader, commit_of, patiently
from tests.proof.work import group_of, input_topic

if TYPE_CHECKING:
    from tests.proof.violations import Violations

COMMITS = "__consumer_offsets"
# The last kind of key that names a commit, and the versions of values that are known.
KIND_MAX, EPOCHS_FROM, FLEXIBLE_FROM, VERSION_MAX = 1, 3, 4, 4


class Logged(NamedTuple):
    """One commit. `text` is what goes with it."""

    group: str
    topic: str
    partition: int
    next_offset: int
    text: str


class CommitLog:
    """Takes what the topic has, and judges what groups of this chain have committed."""

    def __init__(self, levels: int, violations: Violations) -> None:
        self._levels = {(group_of(level), input_topic(level)): level for level in range(levels)}
        self._violations = violations
        self._last: dict[tuple[int, int], int] = {}
        self.commits = 0
        # Each with the time in ms and the place at which `__consumer_offsets` has it.
        self.all: list[tuple[int, int, int, Logged]] = []

    def read(self, bootstrap: str) -> None:
        """Read all there is."""
        client = Consumer({**CLIENT, "bootstrap.servers": bootstrap, "group.id": "reads"})
        try:
            topics = patiently(client.list_topics, COMMITS, 10.0).topics
        finally:
            client.close()
        reader = Reader(bootstrap, {COMMITS: len(topics[COMMITS].partitions)}, self.take)
        reader.read()
        reader.close()

    def take(self, message: Any) -> None:
        """Note a message of the topic."""
        logged = decode(message.key() or b"", message.value())
        level = None if logged is None else self._levels.get((logged.group, logged.topic))
        if logged is None or level is None:
            return
        self.commits += 1
        self.all.append((message.timestamp()[1], message.partition(), message.offset(), logged))
        commit, place = commit_of(logged.next_offset, logged.text), (level, logged.partition)
        if commit.problem:
            self._blame("text", place, commit.next_offset, f"was the commit: {commit.problem}")
        before = self._last.get(place, 0)
        if commit.next_offset < before:
            self._blame("back", place, before, f"was the commit, and the next one was {commit}")
        self._last[place] = commit.next_offset

    def _blame(self, kind: str, place: tuple[int, int], offset: int, text: str) -> None:
        self._violations.by_record(kind, *place, offset, text)


def decode(key: bytes, value: bytes | None) -> Logged | None:
    """Return a commit; None for what is none, or takes one away. Raises `ValueError` for a newer version."""
    name = Fields(key)
    if len(key) < 2 or name.number(2) > KIND_MAX or value is None:
        return None
    group, topic, partition = name.text(), name.text(), name.number()
    said = Fields(value)
    version, next_offset = said.number(2), said.number(8)
    if not 0 <= version <= VERSION_MAX:
        raise ValueError(f"a commit of version {version}")
    said.at += 4 if version >= EPOCHS_FROM else 0
    said.flexible = version >= FLEXIBLE_FROM
    # confluent-kafka sends a text with the zero that ends it in C.
    return Logged(group, topic, partition, next_offset, said.text().removesuffix("\0"))
