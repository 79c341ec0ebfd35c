"""A partition is silent only where fetches were answered and brought nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.positions.client_fetches import ClientFetches, Silence
from ehkafka.records import TopicPartition
from tests.kit.fetch_statistics import fetch_statistics

P0 = TopicPartition("t", 0)


class Client:
    """One partition whose log ends at 10, and what its client's statistics show."""

    def __init__(self, **how: Any) -> None:
        self.fetches = ClientFetches()
        self.silence = Silence(self.fetches, **how)

    def is_silent(self, sent: int, *, end: int = 10, **how: Any) -> bool:
        """Take statistics and look."""
        self.fetches.take(fetch_statistics({0: end}, sent=sent, **how))
        return self.silence.lasts(P0, 10)


def test_fetches_that_are_sent_on_while_nothing_comes_show_silence() -> None:
    """The first that counts is sent behind the first look: the one before may be of another place."""
    client = Client()
    assert [client.is_silent(sent) for sent in (5, 9, 10, 11)] == [False, False, False, True]


def test_time_alone_shows_nothing() -> None:
    """A fetch that is not sent, or whose answer is awaited, however long; statistics that cannot be read."""
    client = Client()
    assert not any(client.is_silent(1) for _ in range(100))
    client.fetches.take('{"brokers": {"a"b": {}}}')  # names are written as they are
    assert client.fetches.state(P0) is None
    assert not any(client.silence.lasts(P0, 10) for _ in range(100))


@pytest.mark.parametrize(
    "problems",
    [
        *({"position": 8}, {"disconnects": 1}, {"req_timeouts": 1}, {"connects": 2}, {"end": 9}),
        *({"end": -1001}, {"throttled_ms": 20}, {"unparsed": 1}, {"nodeid": 2}),
    ],
)
def test_what_may_be_no_answer_begins_anew(problems: dict[str, Any]) -> None:
    """Another place in the log, a lost connection, an answer of a broker that throttles or lags."""
    client = Client()
    assert [client.is_silent(sent) for sent in (1, 2)] == [False, False]
    assert not client.is_silent(9, **problems)
    assert [client.is_silent(sent) for sent in (10, 11, 12, 13)] == [False, False, False, True]


def test_what_cannot_be_parsed_counts_where_that_is_what_is_looked_for() -> None:
    """Each fetch brings it again."""
    client = Client(fetches=3, counts_unparsed=True)
    seen = [client.is_silent(sent, unparsed=sent) for sent in (1, 2, 3, 4, 5)]
    assert seen == [False, False, False, False, True]


def test_a_record_of_another_partition_begins_anew() -> None:
    """It may have taken the room in the answer."""
    client = Client()
    assert [client.is_silent(sent) for sent in (1, 2)] == [False, False]
    client.silence.begin_anew()
    assert [client.is_silent(sent) for sent in (5, 6, 8)] == [False, False, True]
