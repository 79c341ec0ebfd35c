"""What a mirror's start waits for is bounded, and not asked anew each time."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.errors import EndpointError
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_asker import LogAsker
from ehkafka.positions.same_log import Recognised
from ehkafka.positions.topic_ids import TopicIds
from ehkafka.positions.witness import recognise
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition

PLACE = TopicPartition("t", 0)


def test_a_run_that_ends_meanwhile_asks_for_no_bounds() -> None:
    """They may take five seconds more, and nothing needs them any more: its thread would be there as long."""
    consumer, ends = MagicMock(), iter((False, True))
    found = Recognised({PLACE: LogFacts(topic_id=b"1" * 16)}, ids={PLACE.topic: b"2" * 16})
    recognise(found, lambda: nullcontext(consumer), bounds="others", should_end=lambda: next(ends))
    assert not consumer.mock_calls


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
        with pytest.raises(EndpointError, match="did not show within"):
            asker.prove(first)
    assert len(asked) == 1
    may_answer.set()
    monkeypatch.setattr("ehkafka.positions.log_asker._PROOF_S", 10.0)
    assert asker.prove(first)[PLACE].is_same
    assert len(asked) == 1
    assert asker.prove(other)[PLACE].is_same
    assert len(asked) == 2
    asker.stop()
