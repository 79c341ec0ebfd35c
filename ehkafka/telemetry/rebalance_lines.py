"""One line for a whole assignment: gathers the events of its partitions, which come one by one.

Used by `LogLines` on the telemetry thread alone. It never holds an event back for longer than the next one
of another kind, or `GATHER_S` without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import PartitionAssigned, PartitionLost, PartitionRevoked
from ehkafka.telemetry.sentences.partition import NEW, lost
from ehkafka.telemetry.wording import clause, names, partition_ranges, returned, text

if TYPE_CHECKING:
    from ehkafka.events import Event

# The partitions of one assignment follow each other within a few milliseconds.
GATHER_S = 50e-3

Gatherable = PartitionAssigned | PartitionRevoked | PartitionLost


class Gathered:
    """Events of one rebalance that share a line."""

    def __init__(self) -> None:
        self._events: list[Gatherable] = []

    def __len__(self) -> int:
        return len(self._events)

    def takes(self, event: Event) -> bool:
        """Tell whether an event belongs to the same line as those that were gathered."""
        if not isinstance(event, Gatherable):
            return False
        return not self._events or _kind(event) == _kind(self._events[0])

    def add(self, event: Event) -> None:
        """Gather an event that `takes` said yes to."""
        assert isinstance(event, Gatherable)
        self._events.append(event)

    def take(self) -> list[Gatherable]:
        """Return what was gathered, and forget it."""
        taken, self._events = self._events, []
        return taken


def sentence_of_many(gathered: list[Gatherable]) -> str:
    """Say several events of one kind in one sentence."""
    ranges = partition_ranges(event.partition for event in gathered)
    assigned = [event for event in gathered if isinstance(event, PartitionAssigned)]
    if assigned:
        positions = {_position(event) for event in assigned}
        if len(positions) == 1:
            return f"Assigned {ranges}, each read from {text(*positions)}."
        where = names(f"{event.partition} from {_position(event)}" for event in assigned)
        return f"Assigned {ranges}: {where}."
    revoked = [event for event in gathered if isinstance(event, PartitionRevoked)]
    if not revoked:
        return lost(ranges, sum(e.returned_records for e in gathered if isinstance(e, PartitionLost)))
    stored = [f"{e.partition} up to {e.next_offset}" for e in revoked if e.next_offset is not None]
    committed = f"committed {names(stored)}" if stored else "nothing committed"
    left = returned(sum(event.returned_records for event in revoked))
    return f"Released {ranges} ({clause(revoked[0].reason)}): {committed}; {left}."


def fields_of_many(gathered: list[Gatherable]) -> dict[str, object]:
    """Return the fields of several events of one kind: a list for each, in the order of `partitions`."""
    fields: dict[str, object] = {
        "event": type(gathered[0]).__name__,
        "partitions": [str(event.partition) for event in gathered],
        "epochs": [event.epoch for event in gathered],
    }
    for event in gathered:
        if isinstance(event, PartitionAssigned):
            _append(fields, "positions", event.position)
            _append(fields, "is_new", event.is_new)
            continue
        if isinstance(event, PartitionRevoked):
            fields["reason"] = event.reason
            _append(fields, "next_offsets", event.next_offset)
        _append(fields, "returned_records", event.returned_records)
    return fields


def _position(event: PartitionAssigned) -> str:
    return f"{event.position} ({NEW})" if event.is_new else event.position


def _append(fields: dict[str, object], name: str, value: object) -> None:
    values = fields.setdefault(name, [])
    assert isinstance(values, list)
    values.append(value)


def _kind(event: Gatherable) -> tuple[type, str]:
    return type(event), event.reason if isinstance(event, PartitionRevoked) else ""
