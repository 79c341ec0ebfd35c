"""Names of keys: which lane `TOPIC/PARTITION@OFFSET`, or a key's own text, means.

A key's text is its UTF-8; other bytes are `base64:…`, keys of other types JSON (`17`, `["a", 1]`). Names come
from people and from the network: they are compared, and never run.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import TopicPartition
from ehkafka.run.steer.action import refused

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.intake.route import Route
    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane

# As `blocking()` prints it, and as the log does: `readings/0@12`, `readings[0]@12`.
_HEAD = re.compile(r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])@(?P<offset>\d{1,18})")
_PARTITION = re.compile(r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])")
_BASE64 = "base64:"
NAMES_MAX = 20


class Found(NamedTuple):
    """A lane with its head, as it was when it was found."""

    route: Route
    assignment: Assignment
    lane: Lane
    offset: int

    @property
    def name(self) -> str:
        """The key's name, by its head."""
        return head_name(self.assignment.partition, self.offset)


def head_name(partition: TopicPartition, offset: int) -> str:
    """Return how a key is named by the record at its head."""
    return f"{partition_name(partition)}@{offset}"


def partition_name(partition: TopicPartition) -> str:
    """Return how a partition is named."""
    return f"{partition.topic}/{partition.partition}"


def parse_partition(name: str) -> TopicPartition | None:
    """Return the partition that a name means; None where it is no partition's."""
    match = _PARTITION.fullmatch(name)
    return None if match is None else TopicPartition(match["topic"], int(match["one"] or match["other"]))


def parse_head(name: str) -> tuple[TopicPartition, int] | None:
    """Return the partition and the offset that a name means; None where it is a key's text."""
    match = _HEAD.fullmatch(name)
    if match is None:
        return None
    partition = TopicPartition(match["topic"], int(match["one"] or match["other"]))
    return partition, int(match["offset"])


def key_text(key: Hashable) -> str:
    """Return the text by which a lane's key is named. Never under a lock: it may run code of the user's."""
    key = users_key(key)
    if isinstance(key, bytes):
        try:
            text = key.decode()
        except UnicodeDecodeError:
            return _BASE64 + base64.b64encode(key).decode()
        return text if text.isprintable() else _BASE64 + base64.b64encode(key).decode()
    if isinstance(key, str):
        return key
    if type(key) in (int, float, bool, type(None), tuple):
        try:
            return orjson.dumps(key).decode()
        except orjson.JSONEncodeError:
            return describe_key(key)
    return describe_key(key)


def keys_meant(text: str) -> tuple[Hashable, ...]:
    """Return the keys of Python's own types that a text may mean."""
    found: list[Hashable] = [text.encode("utf-8", "surrogatepass"), text]
    if text.startswith(_BASE64):
        with suppress(binascii.Error, ValueError):  # then it is a key that begins so
            found.append(base64.b64decode(text.removeprefix(_BASE64), validate=True))
    try:
        value = _hashable(orjson.loads(text))
    except (orjson.JSONDecodeError, TypeError):
        pass  # most keys are no JSON, and none is a mapping
    else:
        if not isinstance(value, str):
            found.append(value)
    return tuple(found)


def _hashable(value: Any) -> Any:
    """Return a value of JSON as a key may be. Raises `TypeError` where something in it is a mapping."""
    if isinstance(value, dict):
        raise TypeError
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def lanes_at(owned: OwnedPartition, offset: int) -> Iterator[Found]:
    """Yield the lane whose head has that offset. Takes the lock for as long as it takes to copy."""
    route, assignment = owned
    for lane in lanes_of(owned):
        head = lane.head
        if head is not None and lane.assignment is assignment and head.offset() == offset:
            yield Found(route, assignment, lane, offset)
            return


def lanes_of(owned: OwnedPartition) -> list[Lane]:
    """Return the lanes of a partition. Takes the lock for as long as it takes to copy."""
    with owned.route.exchange.locked():
        return list(owned.assignment.lanes.values())


def lanes_of_keys(owned: Mapping[TopicPartition, OwnedPartition], text: str) -> list[Found]:
    """Return the lanes whose key is named by a text, each once."""
    meant = keys_meant(text)
    found: dict[Lane, Found] = {}
    for one in list(owned.values()):
        with one.route.exchange.locked():
            lanes = [lane for key in meant if (lane := one.assignment.lanes.get(key)) is not None]
        if not lanes and one.route.keys.calls_user_code:
            lanes = [lane for lane in lanes_of(one) if key_text(lane.key) == text]
        for lane in lanes:
            head = lane.head
            if head is not None:
                found.setdefault(lane, Found(one.route, lane.assignment, lane, head.offset()))
    return list(found.values())


def only_one(found: Iterable[Found], text: str) -> Found:
    """Return the one that was found. Raises `ActionRefusedError`, with all of them where there are more."""
    found = list(found)
    if len(found) == 1:
        return found[0]
    if not found:
        raise refused("unknown", f"No unfinished record here has the key {text!r}.")
    names = tuple(one.name for one in found)
    shown = ", ".join(names[:NAMES_MAX]) + (" …" if len(names) > NAMES_MAX else "")
    raise refused("ambiguous", f"{len(names)} keys are named {text!r}; say which one: {shown}.", names)
