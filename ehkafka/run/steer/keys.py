"""Which keys hold a commit, and which else wait by themselves. Reads; called from any thread."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ehkafka.run.steer.names import head_name, key_text, lanes_at
from ehkafka.run.steer.refusals import refusals
from ehkafka.telemetry.picture import partition_snapshots, unfinished_of
from ehkafka.telemetry.snapshot import Unfinished

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import TopicPartition

# Of a value as it is shown; what is longer is cut.
VALUE_BYTES_MAX: Final = 400
KEY_CHARACTERS_MAX: Final = 200
# Lanes looked at in one hold of a route's lock.
_HOLD: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """A key with the record at its head, which has no outcome yet."""

    # `TOPIC/PARTITION@OFFSET` of the head: what actions take.
    name: str
    topic: str
    partition: int
    offset: int
    # Its text, as actions take it; a long one is cut.
    key: str
    handler: str
    # `running`, `queued`, `deferred`, `waiting` (for its next attempt), `sending` (its dead letter is on its
    # way), `held` or `paused`; then the same in words.
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
    # The head's value as text, escaped and cut; None where it was not asked for.
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
        key, value, has_letters = oldest.key, None, True
        owned = context.owned.get(picture.partition)
        if owned is not None:
            has_letters = _has_letters(owned.route)
            # The key as it is named, which the snapshot has only as it is described.
            for one in lanes_at(owned, oldest.offset):
                key = key_text(one.lane.key)
                if values and (head := one.lane.head) is not None:
                    value = value_text(head.value())
        found.append(
            _state(picture.partition, oldest, key, is_blocking=True, value=value, has_letters=has_letters)
        )
    return sorted(found, key=lambda one: -one.age_s)


def on_hold(context: IntakeContext, routes: tuple[Route, ...], limit: int) -> list[KeyState]:
    """Return keys that wait for a time, a command or somebody's answer, `limit` of each handler at most."""
    found: list[KeyState] = []
    for route in routes:
        with route.exchange.locked() as dispatcher:
            lanes = list(itertools.islice(dispatcher.holds.held, limit))
        for begin in range(0, len(lanes), _HOLD):
            # Put into words without the lock: a key may be of a user's type.
            for where, key, numbers in _numbers(context, route, lanes[begin : begin + _HOLD]):
                text = key_text(key)
                picture = Unfinished(key=text, **numbers)
                has_letters = _has_letters(route)
                found.append(_state(where, picture, text, is_blocking=False, has_letters=has_letters))
    return sorted(found, key=lambda one: -one.age_s)


def _numbers(
    context: IntakeContext, route: Route, lanes: list[Lane]
) -> list[tuple[TopicPartition, Hashable, dict[str, Any]]]:
    """Return what is known of those lanes that are still on hold, as they are in one hold of the lock."""
    now_s = context.clock()
    with route.exchange.locked() as dispatcher:
        held = dispatcher.holds.held
        return [
            (
                lane.assignment.partition,
                lane.key,
                unfinished_of(route, lane.assignment, lane, head.offset(), now_s),
            )
            for lane in lanes
            if lane in held and (head := lane.head) is not None
        ]


def value_text(value: bytes | None) -> str:
    """Return a value's begin as one line of text: what is no UTF-8, or no visible character, is escaped."""
    if value is None:
        return "(no value)"
    text = bytes(value[:VALUE_BYTES_MAX]).decode("utf-8", "backslashreplace")
    shown = text
    if not text.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown + (f"… ({len(value)} bytes)" if len(value) > VALUE_BYTES_MAX else "")


def _state(
    where: TopicPartition,
    picture: Unfinished,
    key: str,
    *,
    is_blocking: bool,
    has_letters: bool,
    value: str | None = None,
) -> KeyState:
    return KeyState(
        name=head_name(where, picture.offset),
        topic=where.topic,
        partition=where.partition,
        offset=picture.offset,
        key=_cut(key),
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


def _has_letters(route: Route) -> bool:
    return route.dispatcher.decisions.divert is not None


def _cut(text: str) -> str:
    return text if len(text) <= KEY_CHARACTERS_MAX else f"{text[: KEY_CHARACTERS_MAX - 1]}…"


def merged(blocking: list[KeyState], others: list[KeyState]) -> Iterator[KeyState]:
    """Yield the keys that hold a commit, then those of the others that are not among them."""
    yield from blocking
    seen = {one.name for one in blocking}
    yield from (one for one in others if one.name not in seen)
