"""Whether a commit whose answer was lost was made: the group is asked for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ehkafka.progress.commits import as_offset
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.run.exactly_once import ExactlyOnce

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_part_is_not_the_whole() -> None:
    """Ask for a commit of which the group has one partition alone, by the commit before."""
    asked: Any = SimpleNamespace(
        _app=SimpleNamespace(settings=SimpleNamespace(group="g")),
        _epochs={P0: 1, P1: 1},
        _open_consumer=lambda _group: SimpleNamespace(
            committed=lambda _asked, timeout: [as_offset(P0, Position(1, 5)), as_offset(P1, Position(1, 5))],
            close=lambda: None,
        ),
    )
    assert not ExactlyOnce._was_committed(asked, {P0: Position(1, 5), P1: Position(1, 6)})
