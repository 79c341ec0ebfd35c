"""What a mirror's start waits for is bounded, and not asked anew each time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.errors import EndpointError
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from ehkafka.positions.same_log import Recognised

PLACE = TopicPartition("t", 0)


def test_a_proof_that_takes_long_is_there_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll thread does not wait for it to its end; one of other checkpoints is another."""
    may_answer, asked = threading.Event(), list[Any]()

    def slow(found: Recognised, *_opened: object, **_how: object) -> Recognised:
        asked.append(found.facts)
        assert may_answer.wait(10.0)
        found.bounds = {PLACE: LogBounds(4, 9)}
        return found

    monkeypatch.setattr("ehkafka.positions.log_asker.recognise", slow)
    monkeypatch.setattr("ehkafka.positions.log_asker._PROOF_S", 0.2)
    asker = LogAsker(TopicIds(None), lambda *_properties: Mock())
    first, other = {PLACE: Checkpoint(next_offset=3)}, {PLACE: Checkpoint(next_offset=4)}
    for _ in range(2):
        with pytest.raises(EndpointError, match="not known within"):
            asker.prove(first)
    assert len(asked) == 1
    may_answer.set()
    monkeypatch.setattr("ehkafka.positions.log_asker._PROOF_S", 10.0)
    assert asker.prove(first)[PLACE].is_same
    assert len(asked) == 1
    assert asker.prove(other)[PLACE].is_same
    assert len(asked) == 2
    asker.stop()
