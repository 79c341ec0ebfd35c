"""Which keys hold a commit, and which else wait by themselves. Reads; called from any thread."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE
from ehkafka.lanes.seen import InboxesSeen
from ehkafka.run.steer.action import refusals
from ehkafka.run.steer.names import head_name, key_at, key_text
from ehkafka.telemetry.picture import partition_snapshots, unfinished_of
from ehkafka.telemetry.snapshot import Unfinished
from ehkafka.wording.line import printable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry
    from ehkafka.records import TopicPartition

# Of a value as it is shown; what is longer is cut.
VALUE_BYTES_MAX: Final = 400
KEY_CHARACTERS_MAX: Final = 200
# Keys looked at in one hold of a route's lock.
_HOLD: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """A key with the record at its head, which has no result yet."""

    # `TOPIC/PARTITION@OFFSET` of the head: what actions take.
    name: str
    topic: str
    partition: int
    offset: int
    # Its text, as actions take it; a long one is cut.
    key: str
    handler: str
    # `running`, `queued`, or `waiting: ` and for what, as in a snapshot; then the same in words.
    status: str
    state: str
    # Seconds since the head was received.
    age_s: float
    attempts: int
    last_error: str
    # How many records the key has here, the head included.
    records: int
    # It is the oldest of its partition: nothing behind it can be committed.
    is_blocking: bool
    # The first record's value as text, escaped and cut; None where it was not asked for.
    value: str | None = None
    # Actions that would be refused as it is, each with the reason.
    refused: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def blocking(context: IntakeContext, *, values: bool = False) -> list[KeyState]:
    """Return, for each partition that has one, the record that holds its commit; the oldest first."""
    found = []
    for picture in partition_snapshots(context):
        if (oldest := picture.oldest) is None:
            continue
        key, value = oldest.key, None
        owned = context.owned.get(picture.partition)
        # The key as it is named, which the snapshot has only as it is described.
        if owned is not None and (one := key_at(owned, oldest.offset)) is not None:
            key = key_text(one.key)
            if values:
                value = value_text(one.head[MESSAGE].value())
        route = None if owned is None else owned.route
        found.append(_state(picture.partition, oldest, key, route, is_blocking=True, value=value))
    return sorted(found, key=lambda one: -one.age_s)


def on_hold(context: IntakeContext, routes: tuple[Route, ...], limit: int) -> list[KeyState]:
    """Return keys that wait for a time, a command or an old call, `limit` of each handler at most."""
    found: list[KeyState] = []
    for route in routes:
        keys = _waiting_keys(route, limit)
        for begin in range(0, len(keys), _HOLD):
            # Put into words without the lock: a key may be of a user's type.
            for where, key, numbers in _numbers(context, route, keys[begin : begin + _HOLD]):
                text = key_text(key)
                found.append(_state(where, Unfinished(key=text, **numbers), text, route, is_blocking=False))
    return sorted(found, key=lambda one: -one.age_s)


def _waiting_keys(route: Route, limit: int) -> list[tuple[Hashable, Epoch]]:
    with route.hub.locked() as inboxes:
        waiting = (held for held in inboxes.waiting.held if held.is_parked and held.q)
        keys = [(held.key, held.q[0][EPOCH]) for held in itertools.islice(waiting, limit)]
        current = {id(epoch.owners): epoch for epoch in inboxes.router.epochs.values()}
        calls = [call for call in inboxes.outliving.calls() if id(call[EPOCH].owners) in current]
        return keys + [(call[KEY], current[id(call[EPOCH].owners)]) for call in calls]


def _numbers(
    context: IntakeContext, route: Route, keys: list[tuple[Hashable, Epoch]]
) -> list[tuple[TopicPartition, Hashable, dict[str, Any]]]:
    """Return what is known of those keys that still wait, as they are in one hold of the lock."""
    now_s = context.clock()
    found = []
    with route.hub.locked() as inboxes:
        inspection = InboxesSeen(inboxes)
        for key, epoch in keys:
            records: list[Entry] = inspection.records_of(key, epoch)
            if not records:
                continue
            record = inspection.record(records[0])
            if record.status not in ("running", "queued", "waiting: your answer"):
                numbers = unfinished_of(route, record, now_s) | {"lane_records": len(records)}
                found.append((records[0][EPOCH].partition, key, numbers))
    return found


def value_text(value: bytes | None) -> str:
    """Return a value's begin as one line of text: what is no UTF-8, or no visible character, is escaped."""
    if value is None:
        return "(no value)"
    shown = printable(bytes(value[:VALUE_BYTES_MAX]).decode("utf-8", "backslashreplace"))
    return shown + (f"… ({len(value)} bytes)" if len(value) > VALUE_BYTES_MAX else "")


def _state(
    where: TopicPartition,
    picture: Unfinished,
    key: str,
    route: Route | None,
    *,
    is_blocking: bool,
    value: str | None = None,
) -> KeyState:
    has_letters = route is None or route.hub.inboxes.waiting.divert is not None
    return KeyState(
        name=head_name(where, picture.offset),
        topic=where.topic,
        partition=where.partition,
        offset=picture.offset,
        key=key if len(key) <= KEY_CHARACTERS_MAX else f"{key[: KEY_CHARACTERS_MAX - 1]}…",
        handler=picture.handler,
        status=picture.status,
        state=picture.state,
        age_s=picture.age_s,
        attempts=picture.attempts,
        last_error=picture.last_error,
        records=picture.lane_records,
        is_blocking=is_blocking,
        value=value,
        refused=refusals(picture.status, picture.handler, has_letters=has_letters),
    )
