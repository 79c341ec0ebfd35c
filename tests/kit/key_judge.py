"""Judges that no two calls of a key run at once in one process, over all its epochs.

The checker judges each epoch by itself, and other processes' calls of a key may overlap with it: this is the
promise that holds whatever becomes of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.checker.history_event import Finished, Started

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.records import TopicPartition
    from tests.kit.checker.history_event import HistoryEvent


def overlapping_calls(events: Iterable[HistoryEvent], *, null_key_ordered: bool = False) -> list[str]:
    """Return in words which calls of one process began while another one of their key ran.

    Records without a key are left out unless they are ordered: each is on its own.
    """
    running: dict[tuple[TopicPartition, Hashable], tuple[int, int]] = {}
    found: list[str] = []
    for event in events:
        if not isinstance(event, Started | Finished) or (event.key is None and not null_key_ordered):
            continue
        name, call = (event.partition, event.key), (event.epoch, event.offset)
        if isinstance(event, Finished):
            if running.get(name) == call:
                del running[name]
            continue
        if (other := running.get(name)) is not None:
            found.append(
                f"{event.partition}@{event.offset} (epoch {event.epoch}) of key {event.key!r} began while "
                f"@{other[1]} (epoch {other[0]}) ran"
            )
        running[name] = call
    return found
