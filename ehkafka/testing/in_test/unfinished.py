"""Reports what a test still waits for: each key that holds a commit, and what that key waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.app.app import App
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.keys import KeyState

_SHOWN_MAX = 10


def unfinished_text(
    app: App, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
) -> str:
    """Return one line for each key and partition that is not done."""
    behind = {where: end for where, end in ends.items() if committed.get(where, 0) < end}
    keys = app.keys.waiting()
    lines = [_key_line(key) for key in keys]
    lines += [
        f"{where}: committed up to {committed.get(where, 0)} of {end}{_why(app, where)}"
        for where, end in sorted(behind.items())
    ]
    more = len(lines) - _SHOWN_MAX
    shown = lines[:_SHOWN_MAX] + ([f"and {more} more"] if more > 0 else [])
    return "\n".join(f"  - {line}" for line in shown)


def _key_line(key: KeyState) -> str:
    error = f"; its last error: {key.last_error}" if key.last_error else ""
    behind = f", {key.records - 1} more of this key behind it" if key.records > 1 else ""
    return (
        f"key {key.key!r} of handler {key.handler} at {key.topic}[{key.partition}]@{key.offset}: {key.state} "
        f"for {key.age_s:.1f} s, {key.attempts} attempts{behind}{error}"
    )


def _why(app: App, where: TopicPartition) -> str:
    """Return what is known of a partition that none of the keys explains."""
    for picture in app.snapshot().partitions:
        if picture.partition == where:
            return "" if picture.oldest is not None else "; all that was received is handled"
    return "; the app does not have this partition yet"
