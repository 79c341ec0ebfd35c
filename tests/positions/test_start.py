"""Start positions: which forms are taken, and what each partition gets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka import OFFSET_BEGINNING
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.errors import ConfigurationError
from ehkafka.positions.log_bounds import start_offsets
from ehkafka.positions.start import check_start, check_start_topics
from ehkafka.records import TopicPartition

P0, P1, Q0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def named(parameter: object) -> str | None:
    """Return a name that every process which collects the tests gives: without a clock or an address."""
    text = str(parameter)
    return None if isinstance(parameter, datetime) or " at 0x" in text else text


def offsets(start: Any, *partitions: TopicPartition) -> dict[TopicPartition, int]:
    """Ask for positions that need no broker."""
    return start_offsets(None, start, partitions, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "start",
    [
        "earliest",
        "latest",
        0,
        7,
        datetime.now(UTC),
        timedelta(0),
        timedelta(hours=2),
        timedelta.max,
        2**63 - 1,
        lambda _topic, _partition: 0,
        {0: 5, ("t", 1): "latest", "*": timedelta(hours=1)},
    ],
    ids=named,
)
def test_every_form_is_taken(start: Any) -> None:
    """Earliest, latest, offset, datetime, timedelta, callable, mapping."""
    check_start(start)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (None, "start is missing.*'earliest'"),
        ("newest", "start='newest' is not a start position"),
        (-1, "start=-1"),
        (2**63, "start=9223372036854775808"),
        (True, "start=True"),
        (1.5, "start=1.5"),
        (datetime(2026, 1, 1), "start=datetime.*not a start position"),  # noqa: DTZ001 - the zone is what is missing
        (timedelta(seconds=-1), "start="),
        ({}, r"start=\{\} names no partition"),
        ({-1: 0}, r"start has the key -1"),
        ({True: 0}, r"start has the key True"),
        ({("t",): 0}, r"start has the key \('t',\)"),
        ({(0, "t"): 0}, r"start has the key \(0, 't'\)"),
        ({"t": 0}, "start has the key 't'"),
        ({0: "newest"}, r"start\[0\]='newest'"),
        ({0: None}, r"start\[0\]=None"),
        ({0: {1: 2}}, r"start\[0\]="),
        ({0: lambda _topic, _partition: 0}, r"start\[0\]="),
    ],
    ids=named,
)
def test_what_is_no_start_position_is_refused(start: Any, words: str) -> None:
    """The message shows the value and the forms that are taken; of a mapping, the entry."""
    with pytest.raises(ConfigurationError, match=words):
        check_start(start)


def test_a_mapping_gives_each_partition_its_own_position() -> None:
    """Topic and number go before the number, that before `*`; without one nothing is guessed."""
    start = {("t", 0): 10, 0: 20, "*": "earliest"}
    assert offsets(start, P0, P1, Q0) == {P0: 10, P1: OFFSET_BEGINNING, Q0: 20}
    with pytest.raises(
        ConfigurationError, match=r"no position for t\[1\].*Add the key 1 or \('t', 1\) to start, or '\*'"
    ):
        offsets({0: 5}, P0, P1)


def test_a_mapping_of_a_topic_without_a_handler_is_refused() -> None:
    """A misspelt topic would otherwise pass unnoticed until its partition is assigned."""
    check_start_topics({("t", 0): 1, 5: 2, "*": 3}, ["t", "u"])
    check_start_topics("earliest", ["t"])
    with pytest.raises(ConfigurationError, match=r"topic 'tt', but the handlers have only .* 't', 'u'"):
        check_start_topics({("tt", 0): 1}, ["u", "t"])


@pytest.mark.parametrize("answer", [None, "newest", {0: 1}, -1])
def test_what_a_callable_returns_is_checked_and_named_by_partition(answer: Any) -> None:
    """A callable that returns nonsense, or another collection, ends the app with the partition's name."""
    with pytest.raises(ConfigurationError, match=r"start callable returned .* for t\[1\]"):
        offsets(lambda _topic, partition: 0 if partition == 0 else answer, P0, P1)


def test_a_callable_that_raises_names_the_partition_and_keeps_the_cause() -> None:
    """The user's own error is the cause."""
    error = KeyError("no checkpoint")

    def start(topic: str, partition: int) -> int:
        raise error

    with pytest.raises(ConfigurationError, match=r"start callable failed for t\[0\]: KeyError") as caught:
        offsets(start, P0)
    assert caught.value.__cause__ is error


def test_further_back_than_there_are_dates_is_the_logs_start() -> None:
    """A time before the first record is; one that no calendar has is before it, too."""
    logs: Any = Mock()
    logs.offsets_for_times = Mock(side_effect=lambda asked, **_: [KafkaPartition("t", 0, 3) for _ in asked])
    assert start_offsets(logs, timedelta(days=10**6), [P0], 1.0) == {P0: 3}
    ((asked,),) = (call.args[0] for call in logs.offsets_for_times.call_args_list)
    assert asked.offset == 0
