"""Topics' ids: what the broker tells, and when nobody asks any more."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.positions.topic_ids import TopicIds

ANSWERED = bytes([0xFF] * 8 + [0] * 7 + [1])


class Admin:
    """Describes topics as it is asked to."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked = 0

    def describe_topics(self, topics: Any, **_options: Any) -> dict[str, Future[Any]]:
        """Answer at once."""
        self.asked += 1
        futures = {}
        for topic in topics.topic_names:
            future = futures[topic] = Future[Any]()
            answer = self.answers[topic]
            if isinstance(answer, KafkaException):
                future.set_exception(answer)
            elif answer is not None:
                future.set_result(SimpleNamespace(topic_id=_Uuid(*answer)))
        return futures


class _Uuid:
    def __init__(self, most: int, least: int) -> None:
        self._halves = most, least

    def get_most_significant_bits(self) -> int:
        """Signed, as confluent-kafka has it."""
        return self._halves[0]

    def get_least_significant_bits(self) -> int:
        """Signed, too."""
        return self._halves[1]


@pytest.fixture
def admin() -> Admin:
    """Return one that knows a topic."""
    return Admin({"t": (-1, 1)})


def ids_of(admin: Admin) -> TopicIds:
    """Return ids asked of it."""
    return TopicIds(lambda: admin)  # type: ignore[arg-type,return-value]


def test_an_id_is_sixteen_bytes(admin: Admin) -> None:
    """Two signed halves become the bytes that commits carry."""
    assert ids_of(admin).ask(["t"]) == {"t": ANSWERED}


def test_a_zero_id_ends_the_question(admin: Admin) -> None:
    """A service without ids is asked once."""
    admin.answers["t"] = (0, 0)
    ids = ids_of(admin)
    assert [ids.ask(["t"]), ids.ask(["t"])] == [{}, {}]
    assert (admin.asked, ids.is_over) == (1, True)


def test_silence_ends_the_question_only_while_no_id_was_known(admin: Admin) -> None:
    """The embedded broker never answers; another one is away for a while."""
    admin.answers["t"] = None
    silent = ids_of(admin)
    assert silent.ask(["t"], 0.1) == {}
    assert silent.is_over
    admin.answers["t"] = (-1, 1)
    known = ids_of(admin)
    known.ask(["t"])
    admin.answers["t"] = None
    assert known.ask(["t"], 0.1) == {}
    assert not known.is_over


def test_a_commit_with_an_id_counts_as_having_known_one(admin: Admin) -> None:
    """A slow answer at the start is no word about the service."""
    admin.answers["t"] = None
    ids = ids_of(admin)
    ids.are_known = True
    assert ids.ask(["t"], 0.1) == {}
    assert not ids.is_over


def test_a_topic_that_is_just_gone_says_nothing_of_the_others(admin: Admin) -> None:
    """Between its deletion and its making anew."""
    admin.answers |= {"gone": KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))}
    ids = ids_of(admin)
    assert ids.ask(["t", "gone"]) == {"t": ANSWERED}
    assert ids.ask(["gone"]) == {}
    assert not ids.is_over
