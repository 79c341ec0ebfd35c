"""Names of keys: which key `TOPIC/PARTITION@OFFSET`, or a key's own text, means.

A key's text is its UTF-8; other bytes are `base64:…`, keys of other types JSON (`17`, `["a", 1]`). Names come
from people and from the network: they are compared, and never run.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import orjson

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.seen import InboxesSeen
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import TopicPartition
from ehkafka.run.steer.action import refused

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.inboxes import Inboxes

# As `blocking()` prints it, and as the log does: `readings/0@12`, `readings[0]@12`.
_PARTITION = re.compile(r"(?P<topic>[^/\[\]@]+)(?:/(?P<one>\d{1,9})|\[(?P<other>\d{1,9})\])")
_OFFSET = re.compile(r"\d{1,18}")
_BASE64 = "base64:"
NAMES_MAX = 20


class FoundKey(NamedTuple):
    """A key with its unfinished records, as they were when it was found."""

    route: Route
    key: Hashable
    records: list[Entry]

    @property
    def head(self) -> Entry:
        """Its first record."""
        return self.records[0]

    @property
    def epoch(self) -> Epoch:
        """The epoch of its first record."""
        return self.head[EPOCH]

    @property
    def offset(self) -> int:
        """The offset of its first record."""
        return self.head[MESSAGE].offset()

    @property
    def name(self) -> str:
        """The key's name, by its head."""
        return head_name(self.epoch.partition, self.offset)


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
    where, _, offset = name.rpartition("@")
    partition = parse_partition(where) if _OFFSET.fullmatch(offset) else None
    return None if partition is None else (partition, int(offset))


def key_text(key: Hashable) -> str:
    """Return the text by which a key is named. Never under a lock: it may run code of the user's."""
    key = users_key(key)
    if isinstance(key, str):
        return key
    if isinstance(key, bytes):
        with suppress(UnicodeDecodeError):
            if (text := key.decode()).isprintable():
                return text
        return _BASE64 + base64.b64encode(key).decode()
    if type(key) in (int, float, bool, type(None), tuple):
        with suppress(orjson.JSONEncodeError):
            return orjson.dumps(key).decode()
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


def _hashable(value: object) -> object:
    """Return a value of JSON as a key may be. Raises `TypeError` where something in it is a mapping."""
    if isinstance(value, dict):
        raise TypeError
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def key_at(owned: OwnedPartition, offset: int) -> FoundKey | None:
    """Return the key whose first record has that offset, or that waits for a call of an ended epoch there."""
    with owned.route.hub.locked() as inboxes:
        inboxes.router.unread.end()
        entry = next((one for one in owned.epoch.unfinished() if one[MESSAGE].offset() == offset), None)
        if entry is None:
            calls = inboxes.outliving.calls()
            entry = next((one for one in calls if _is_at(one, owned.epoch, offset)), None)
            return None if entry is None else _found(owned, entry[KEY], inboxes)
        found = _found(owned, entry[KEY], inboxes)
    # By the message: an entry is recreated when its key is read.
    return found if found is not None and found.head[MESSAGE] is entry[MESSAGE] else None


def _is_at(call: Entry, epoch: Epoch, offset: int) -> bool:
    return call[EPOCH].partition == epoch.partition and call[MESSAGE].offset() == offset


def _found(owned: OwnedPartition, key: Hashable, inboxes: Inboxes) -> FoundKey | None:
    records = InboxesSeen(inboxes).records_of(key, owned.epoch)
    return FoundKey(owned.route, key, records) if records else None


def keys_named(owned: Mapping[TopicPartition, OwnedPartition], text: str) -> list[FoundKey]:
    """Return the keys that are named by a text, each once."""
    meant = keys_meant(text)
    found: dict[int, FoundKey] = {}
    for one in list(owned.values()):
        its = _those_of(one, meant)
        if not its and one.route.keys.calls_user_code:
            with one.route.hub.locked() as inboxes:
                inboxes.router.unread.end()
                keys = {entry[KEY] for entry in one.epoch.unfinished()}
            its = _those_of(one, [key for key in keys if key_text(key) == text])
        for key in its:
            found.setdefault(id(key.head[MESSAGE]), key)
    return list(found.values())


def _those_of(owned: OwnedPartition, keys: Iterable[Hashable]) -> list[FoundKey]:
    with owned.route.hub.locked() as inboxes:
        return [one for key in keys if (one := _found(owned, key, inboxes)) is not None]


def only_one(found: Iterable[FoundKey], text: str) -> FoundKey:
    """Return the one that was found. Raises `ActionRefusedError`, with all of them where there are more."""
    found = list(found)
    if len(found) == 1:
        return found[0]
    if not found:
        raise refused("unknown", f"No unfinished record of this app has the key {text!r}.")
    names = tuple(one.name for one in found)
    shown = ", ".join(names[:NAMES_MAX]) + (" …" if len(names) > NAMES_MAX else "")
    raise refused(
        "ambiguous", f"{len(names)} keys have the name {text!r}: give one of these names: {shown}.", names
    )
