"""Commits asked for that share a request: each gets the answer that it would have had alone."""

from __future__ import annotations

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.consumer.commit_requests import CommitRequest, Merged
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition

ONE, OTHER = TopicPartition("t", 0), TopicPartition("none", 3)


class Refused:
    """A partition as librdkafka returns it with an error, which Python cannot set."""

    topic, partition, offset = "none", 3, 1
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_who_was_refused_alone_is_refused() -> None:
    """The request went through; the one whose only partition did not hears of an error, the other not."""
    request = Merged()
    good, bad = CommitRequest({ONE: Position(0, 5)}, [ONE]), CommitRequest({OTHER: Position(0, 1)}, [OTHER])
    request.add(good, is_awaited=True)
    request.add(bad, is_awaited=True)
    request.answer(None, [KafkaPartition("t", 0, 5), Refused()])  # type: ignore[list-item]
    assert good.answer is not None
    assert bad.answer is not None
    assert good.answer[0] is None
    assert [place.offset for place in good.answer[1]] == [5]
    assert bad.answer[0] is not None
    assert bad.answer[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert bad.answer[0].str().startswith("Commit failed: ")


def test_who_got_something_stored_is_not_refused() -> None:
    """As librdkafka has it: the error is with the partition."""
    request = Merged()
    ask = CommitRequest({ONE: Position(0, 5), OTHER: Position(0, 1)}, [OTHER, ONE])
    request.add(ask, is_awaited=True)
    request.answer(None, [KafkaPartition("t", 0, 5), Refused()])  # type: ignore[list-item]
    assert ask.answer is not None
    assert ask.answer[0] is None
    assert ask.answer[1][0].error is not None
