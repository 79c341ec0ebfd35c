"""Batches: what goes to a partition at once is reported at once, or each by itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.outputs.properties import goes_by_key, may_report_at_once, output_properties
from ehkafka.settings import Settings
from tests.outputs.sender_bench import (
    REFUSED,
    REPORTS,
    Bench,
    Report,
    answer_for,
    batches_of,
    full_after,
    has_room_again,
)


@pytest.mark.parametrize("reports", REPORTS)
def test_what_came_together_for_a_partition_is_let_go_when_all_of_it_is_safe(reports: str) -> None:
    """Answers of several partitions come in any order."""
    bench = Bench(way="bundles", reports=reports)
    bench.add("a0 b1 c2 a3")
    bench.turn()
    assert (bench.main.client.values(), batches_of(bench)) == ("a0 a3 b1 c2", 3)
    answer_for(bench, "c2")
    answer_for(bench, "a0")
    bench.turn()
    assert (bench.waiting, bench.book.count()) == ({0, 1, 3}, 3)
    answer_for(bench, "b1")
    answer_for(bench, "a3")
    bench.turn()
    assert (bench.waiting, bench.book.count(), batches_of(bench)) == (set(), 0, 0)


def test_what_is_safe_does_not_go_again_by_the_next_producer(reported: Bench) -> None:
    """The others do, in their order."""
    reported.add("a0 b1 a2 b3")
    reported.turn()
    answer_for(reported, "b1")
    reported.main.is_lost = True
    reported.turn()
    assert reported.main.client.values() == "a0 a2 b3"
    assert reported.waiting == {0, 2, 3}


def test_a_batch_whose_last_output_has_no_report_goes_again_as_a_whole(bundled: Bench) -> None:
    """Nobody knows how much of it is written, and it begins with its first one: a repeat, in order."""
    bundled.add("a0 b1 a2 b3")
    bundled.turn()
    answer_for(bundled, "b1")
    answer_for(bundled, "a0")
    answer_for(bundled, "a2")
    bundled.main.is_lost = True
    bundled.turn()
    assert bundled.main.client.values() == "b1 b3"
    assert bundled.waiting == {1, 3}


def test_a_refused_output_goes_alone_and_the_others_are_known_by_their_answers(reported: Bench) -> None:
    """Answers come in the order of the partition."""
    reported.add("a0 b1 a2 c3")
    reported.turn()
    answer_for(reported, "a0")
    answer_for(reported, "b1", REFUSED)
    answer_for(reported, "a2", KafkaError._PURGE_INFLIGHT)
    reported.main.is_lost = True
    reported.turn()
    assert reported.waiting == {1, 2, 3}
    assert reported.main.client.values() == "a2 c3"
    reported.main.client.answer(2)
    reported.turn(2)
    assert reported.second.client.values() == "b1"
    assert reported.waiting == {1}


def test_of_a_refused_batch_each_goes_alone(bundled: Bench) -> None:
    """Whichever the broker meant: in its order, and later ones of the key wait."""
    bundled.add("a0 d1 a2")
    bundled.turn()
    answer_for(bundled, "a0")
    answer_for(bundled, "d1")
    answer_for(bundled, "a2", REFUSED)
    bundled.main.is_lost = True
    bundled.add("a3 d4 b5")
    bundled.turn(2)
    assert bundled.main.client.values() == "b5"
    for alone in ("a0 d1", "d1 a2", "a2"):
        assert bundled.second.client.values() == alone
        bundled.second.client.answer()
        bundled.turn(2)
    assert bundled.main.client.values() == "b5 d4 a3"
    assert bundled.waiting == {3, 4, 5}


def test_what_fails_in_the_producer_may_be_answered_before_what_is_on_its_way(reported: Bench) -> None:
    """A topic that is missing, say: each answer is for the output with its key and its value."""
    reported.add("a0 a1 a2")
    reported.turn()
    answer_for(reported, "a1", KafkaError._UNKNOWN_TOPIC)
    answer_for(reported, "a2", KafkaError._PURGE_QUEUE)
    answer_for(reported, "a0")
    reported.turn(2)
    assert reported.waiting == {1, 2}
    assert reported.second.client.values() == "a1"


def test_equal_outputs_of_one_key_are_answered_in_their_order(reported: Bench) -> None:
    """Nothing tells them apart; what is given back unsent is reported before what is on its way."""
    reported.add("a0 a1 a0")
    reported.turn()
    (first, *rest), reported.main.client.sent = reported.main.client.sent, []
    for value, key, on_delivery in rest:
        on_delivery(KafkaError(KafkaError._PURGE_QUEUE), Report(key, value))
    first[2](None, Report(first[1], first[0]))
    reported.turn()
    assert reported.waiting == {1, 2}
    reported.main.is_lost = True
    reported.turn()
    assert reported.main.client.values() == "a1 a0"


def test_of_two_equal_outputs_the_later_one_failed_first(reported: Bench) -> None:
    """The earlier one was on its way, and is written."""
    reported.add("a0 a0")
    reported.turn()
    (first, second), reported.main.client.sent = reported.main.client.sent, []
    second[2](KafkaError(KafkaError._UNKNOWN_TOPIC), Report(b"a", b"a0"))
    first[2](None, Report(b"a", b"a0"))
    reported.turn(2)
    assert reported.waiting == {1}
    assert reported.second.client.values() == "a0"


def test_a_full_client_is_given_the_rest_later(reported: Bench) -> None:
    """From where it stopped, before what was made later."""
    full_after(reported, 2)
    reported.add("a0 a1 a2")
    reported.turn()
    reported.add("a3")
    assert reported.main.client.values() == "a0 a1"
    has_room_again(reported)
    reported.turn()
    assert reported.main.client.values() == "a0 a1 a2 a3"
    reported.main.client.answer(4)
    reported.turn()
    assert reported.book.count() == 0


def test_a_full_client_is_given_a_batch_later(bundled: Bench) -> None:
    """All of it, before what was made later."""
    full_after(bundled, 0)
    bundled.add("a0 a1")
    bundled.turn()
    bundled.add("a2")
    assert bundled.main.client.values() == ""
    has_room_again(bundled)
    bundled.turn()
    assert bundled.main.client.values() == "a0 a1 a2"


def test_a_batch_of_which_some_was_taken_goes_again_by_another_producer(bundled: Bench) -> None:
    """There would be no report of it: the last one, which has it, was not taken."""
    full_after(bundled, 2)
    bundled.add("a0 a1 a2")
    bundled.turn(2)
    assert len(bundled.main.clients) == 2
    assert bundled.main.client.values() == "a0 a1 a2"
    bundled.main.client.answer(3)
    bundled.turn()
    assert bundled.book.count() == 0


def test_a_batch_half_sent_is_taken_apart_where_it_stands(reported: Bench) -> None:
    """The first half is with its producer, the other one goes as it would have gone."""
    full_after(reported, 2)
    reported.add("a0 b1 b2 c3")
    reported.turn()
    assert reported.main.client.values() == "a0 b1"
    answer_for(reported, "b1", REFUSED)
    reported.main.is_lost = True
    reported.turn()
    assert reported.main.client.values() == "a0 c3"


@pytest.mark.parametrize(
    ("asked", "at_once"),
    [
        ({}, True),
        ({"linger.ms": 5}, True),
        ({"message.send.max.retries": 3}, False),
        ({"retries": 3}, False),
        ({"queue.buffering.max.messages": 1_000}, False),
        ({"queue.buffering.max.kbytes": 1_000}, False),
        ({"partitioner": "consistent_random"}, True),
    ],
    ids=repr,
)
def test_one_report_stands_for_others_only_where_the_client_gives_nothing_up(
    asked: dict[str, Any], *, at_once: bool
) -> None:
    """Where it does, a later message can be written without an earlier one; or a batch is taken in part."""
    settings = Settings(group="g", start="earliest", producer=asked)
    properties = output_properties(ehkafka.Endpoint.kafka("localhost:9092"), settings)
    assert may_report_at_once(properties) is at_once


def test_an_output_that_the_client_does_not_take_is_alone_at_fault(reported: Bench) -> None:
    """Headers that are none, say: it is refused, and the others go."""
    produce = reported.main.client.produce

    def takes_no_b(topic: str, value: bytes, *rest: Any, **headers: Any) -> None:
        if value.startswith(b"b"):
            raise ValueError("no")
        produce(topic, value, *rest, **headers)

    reported.main.client.produce = takes_no_b  # type: ignore[method-assign]
    reported.add("a0 b1 a2 b3 e4")
    reported.turn()
    assert reported.main.client.values() == "a0 a2 e4"
    reported.main.client.answer(3)
    reported.turn(2)
    assert reported.second.client.values() == "b1"
    assert reported.waiting == {1, 3}


def test_a_batch_that_the_client_does_not_take_is_tried_one_by_one(bundled: Bench) -> None:
    """Its error says nothing of the one that is at fault, nor that only one is."""
    client = bundled.main.client

    def takes_none(_topic: str, messages: list[dict[str, Any]], _partition: int) -> int:
        for message in messages:
            message["_error"] = KafkaError(KafkaError._UNKNOWN_PARTITION)
        return 0

    client.produce_batch = takes_none  # type: ignore[method-assign]
    bundled.add("a0 d1")
    bundled.turn()
    assert client.values() == "a0 d1"
    assert None not in [on_delivery for *_, on_delivery in client.sent]


def test_a_limit_that_is_no_number_is_refused_by_its_name() -> None:
    """As any other property is."""
    settings = Settings(group="g", start="earliest", producer={"queue.buffering.max.messages": "many"})
    properties = output_properties(ehkafka.Endpoint.kafka("localhost:9092"), settings)
    with pytest.raises(ConfigurationError, match=r"queue\.buffering\.max\.messages"):
        may_report_at_once(properties)


@pytest.mark.parametrize("partitioner", ["murmur2_random", "random"])
def test_only_where_a_key_has_one_partition_an_answer_says_which(partitioner: str) -> None:
    """Else all of a key would go where its first output went."""
    settings = Settings(group="g", start="earliest", producer={"partitioner": partitioner})
    by_key = goes_by_key(output_properties(ehkafka.Endpoint.kafka("localhost:9092"), settings))
    bench = Bench(way="bundles", at_once=False, by_key=by_key)
    for word in ("a0", "a1 a2"):
        bench.add(word)
        bench.turn()
        bench.main.client.answer(len(bench.main.client.sent))
        bench.turn()
    assert bench.main.client.given == ([-1] if by_key else [-1, -1, -1])
    assert bench.book.count() == 0


def test_what_goes_alone_goes_to_its_keys_partition() -> None:
    """The topic may have more of them by now, and the client would choose another one."""
    bench = Bench(way="singles", at_once=False)
    for word in ("b0", "b1"):
        bench.add(word)
        bench.turn()
        bench.main.client.answer()
        bench.turn()
    assert bench.main.client.given == [-1, 1]


def test_a_partition_that_is_gone_is_forgotten() -> None:
    """The topic was made anew with fewer."""
    bench = Bench(way="singles", at_once=False)
    bench.add("b0")
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    bench.main.client.partitions = {-1, 0}
    bench.add("b1 b2")
    bench.turn()
    # The second one waits for the first answer, as with a new key.
    assert (bench.main.client.values(), bench.main.client.given) == ("b1", [-1, -1])


def late_answer_of_an_earlier_one(bench: Bench) -> dict[object, int]:
    """Let the answers be forgotten while a later output of a key is on its way; return what is known then."""
    answers = bench.sender._first_answers
    bench.add("b0")
    bench.turn()
    bench.add("b1")
    bench.main.client.answer()
    bench.turn(2)
    answers.forget_partitions("out")
    bench.add("b2")
    bench.turn()
    answer_for(bench, "b1")
    bench.turn()
    return answers._answered.get("out", {})


def test_only_the_first_output_of_a_key_says_where_it_goes() -> None:
    """An earlier one, of before the answers were forgotten, is no first one."""
    bench = Bench(way="bundles", at_once=False)
    assert late_answer_of_an_earlier_one(bench) == {}
    answer_for(bench, "b2")
    bench.turn()
    assert bench.sender._first_answers._answered["out"] == {b"b": 1}


def test_the_end_of_an_epoch_waits_for_a_lost_producer(bundled: Bench) -> None:
    """It may hold outputs of the epoch that nobody notes as on their way."""
    full_after(bundled, 2)
    bundled.add("a0 a1 a2")
    bundled.turn()
    assert bundled.main.is_lost
    bundled.epoch.ended = True
    bundled.book.end([bundled.epoch])
    bundled.sender._purges.append(done := threading.Event())
    bundled.sender._purge()
    assert done.is_set()
    assert len(bundled.main.clients) == 2
