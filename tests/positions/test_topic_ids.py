"""Topics' ids: what the broker tells, and when it is asked no more."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.positions.topic_ids import TopicIds

# Signed halves, as confluent-kafka has them, and the bytes that commits carry.
HALVES, KNOWN = (-1, 1), bytes([0xFF] * 8 + [0] * 7 + [1])
GONE = KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


class Admin:
    """Answers with two halves of an id, an error, or (None) not at all."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked = 0

    def describe_topics(self, topics: Any, **_options: Any) -> dict[str, Future[Any]]:
        """Answer at once."""
        self.asked += 1
        futures = {topic: Future[Any]() for topic in topics.topic_names}
        for topic, future in futures.items():
            answer = self.answers[topic]
            if isinstance(answer, KafkaException):
                future.set_exception(answer)
            elif answer is not None:
                described = Mock()
                described.topic_id.get_most_significant_bits.return_value = answer[0]
                described.topic_id.get_least_significant_bits.return_value = answer[1]
                future.set_result(described)
        return futures


@pytest.mark.parametrize(
    ("answers", "found", "is_over", "asked"),
    [
        ([{"t": HALVES}], [{"t": KNOWN}], False, 1),
        # A service without ids is asked once; the embedded broker never answers.
        ([{"t": (0, 0)}] * 2, [{}, {}], True, 1),
        ([{"t": None}] * 2, [{}, {}], True, 1),
        # A broker that has answered one is only away for a while.
        ([{"t": HALVES}, {"t": None}, {"t": HALVES}], [{"t": KNOWN}, {}, {"t": KNOWN}], False, 3),
        # Between its deletion and its making anew a topic says nothing of the others.
        ([{"t": HALVES, "gone": GONE}, {"gone": GONE}], [{"t": KNOWN}, {}], False, 2),
    ],
    ids=["answered", "none", "silent", "away", "just gone"],
)
@pytest.mark.parametrize("in_a_commit", [False, True])
def test_ids_are_asked_for_until_a_service_has_none(
    answers: list[dict[str, Any]], found: list[Any], asked: int, *, is_over: bool, in_a_commit: bool
) -> None:
    """A commit with an id counts as having known one: silence at the start is no word about the service."""
    admin = Admin()
    ids = TopicIds(lambda: admin)  # type: ignore[arg-type,return-value]
    ids.are_known = in_a_commit
    for answer, expected in zip(answers, found, strict=True):
        admin.answers = answer
        assert ids.ask(answer, 0.1) == expected
    is_away = in_a_commit and answers[0] == {"t": None}
    assert (ids.is_over, admin.asked) == ((False, 2) if is_away else (is_over, asked))
