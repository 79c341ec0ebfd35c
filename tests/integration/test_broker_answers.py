"""What each answer of a broker to outputs leads to, at least once and exactly once.

Some say of an output that it will never be taken: its handler's rules decide. Others say that a producer is
unknown, that a leader is another one, or "later", as Event Hubs does above its quota: the same goes again,
and nothing counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.events import OutputRefused, TransactionAborted
from tests.integration.answering import KEYS, MARK, MODES

if TYPE_CHECKING:
    from tests.kit.faults.kafka_proxy import Produced

pytestmark = pytest.mark.broker

RECORDS = 400
EXCESS = 44
OTHER_EXCESS = 89
# For each refused request: its own transaction's, and one that was begun meanwhile.
ABORTS_MAX = 2
# Its handler's rules decide of the output.
REFUSALS = {
    "MSG_SIZE_TOO_LARGE": KafkaError.MSG_SIZE_TOO_LARGE,
    "INVALID_RECORD": 87,
    "POLICY_VIOLATION": EXCESS,
}
# Nothing is known of the output: it goes again.
AGAIN = {
    "NOT_LEADER_FOR_PARTITION": KafkaError.NOT_LEADER_FOR_PARTITION,
    "UNKNOWN_TOPIC_OR_PART": KafkaError.UNKNOWN_TOPIC_OR_PART,
    "THROTTLING_QUOTA_EXCEEDED": OTHER_EXCESS,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "UNKNOWN_PRODUCER_ID": 59,
}
# Of producers that are unknown; at least once `test_forgotten_ids` has them.
UNKNOWN = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING"}
UNKNOWN |= {"UNKNOWN_PRODUCER_ID"}
# The client itself sends these again: no producer ends, and nothing is sent twice.
BY_THE_CLIENT = {"NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PART"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", REFUSALS)
def test_an_answer_that_refuses_an_output_is_decided_by_its_handlers_rules(
    answering: Any, answer: str, mode: str
) -> None:
    """It is tried as often as `retry` says, and its record becomes a letter; all else is written."""
    one = answering(mode)
    one.produce(RECORDS)
    place = one.mark_one()
    one.proxy.code_of = lambda request: REFUSALS[answer] if MARK in request.frame else 0
    one.run(one.made(), count=0)
    assert one.letters() == [place]
    refused = one.events.of(OutputRefused)
    assert sorted(event.attempt for event in refused) == [1, 2]
    assert all(one.out in event.sentence() and answer in event.sentence() for event in refused), refused
    one.judge(without={place}, repeats_max=1)
    assert len(one.replaced()) <= 3, one.replaced()
    # Each attempt searches a transaction of hundreds for it, in parts of parts.
    assert len(one.events.of(TransactionAborted)) <= (10 if one.is_exact else 0)


@pytest.mark.parametrize(
    ("answer", "mode"),
    [(answer, mode) for mode in MODES for answer in AGAIN if mode != MODES[0] or answer not in UNKNOWN],
)
def test_an_answer_that_says_nothing_of_an_output_counts_as_no_attempt(
    answering: Any, answer: str, mode: str
) -> None:
    """Twice in a row for requests that have the marked output; then it is written as all others are.

    After each of them the outputs that were in flight behind it are sent again.
    """
    one = answering(mode)
    one.produce(RECORDS)
    one.mark_one()
    times = 2
    left = [AGAIN[answer]] * times

    def code_of(request: Produced) -> int:
        return left.pop() if left and MARK in request.frame else 0

    one.proxy.code_of = code_of
    one.run(one.made(), count=0)
    assert one.proxy.refused_requests == times
    assert one.letters() == []
    assert one.events.of(OutputRefused) == []
    by_client = answer in BY_THE_CLIENT
    one.judge(without=set(), repeats_max=0 if by_client else times)
    assert len(one.replaced()) <= (0 if by_client else 3), one.replaced()
    assert len(one.events.of(TransactionAborted)) <= (0 if by_client or not one.is_exact else ABORTS_MAX * 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_topic_that_the_credential_may_not_write_makes_a_letter_of_each_record(
    answering: Any, mode: str
) -> None:
    """Each is decided by its handler's rules, and nothing else ends for it."""
    one = answering(mode)
    one.produce(KEYS)
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    one.proxy.code_of = lambda request: refused if request.topic == one.out else 0
    one.run(one.made(), count=0)
    places = sorted((message.partition(), message.offset()) for message in one.inputs())
    assert one.letters() == places
    attempts = [event.attempt for event in one.events.of(OutputRefused)]
    assert sorted(attempts) == [1] * KEYS + [2] * KEYS
    assert set(one.calls.values()) == {1}


# --- Event Hubs' quota ---


@pytest.mark.parametrize("mode", MODES)
def test_answers_that_a_quota_holds_back_end_no_producer(answering: Any, mode: str) -> None:
    """Each comes late and says so. None is an error, so nothing is sent twice and nothing is aborted."""
    one = answering(mode)
    app = one.made(is_event_hubs=True)
    app.start()
    one.produce(KEYS)
    one.stage.wait_until_committed(one.load.ends)
    one.proxy.throttle_s = 0.5
    before = one.proxy.producer_ids
    for _ in range(3):
        one.produce(RECORDS // 4)
        one.stage.wait_until_committed(one.load.ends)
    assert one.proxy.producer_ids == before
    app.stop()
    one.judge(without=set(), repeats_max=0)
    assert (one.replaced(), one.events.of(TransactionAborted, OutputRefused)) == ([], [])


@pytest.mark.parametrize("mode", MODES)
def test_what_a_quota_refuses_goes_again_and_counts_as_no_attempt(answering: Any, mode: str) -> None:
    """One request in so many is refused as Event Hubs refuses: for a while, and again later."""
    one = answering(mode)
    one.proxy.throttle_s = 0.1
    seen = [0]

    def code_of(request: Produced) -> int:
        seen[0] += request.topic == one.out
        return EXCESS if request.topic == one.out and seen[0] % 5 == 2 else 0

    one.proxy.code_of = code_of
    app = one.made(is_event_hubs=True)
    app.start()
    while one.proxy.refused_requests < 2:
        one.produce(RECORDS // 4)
        one.stage.wait_until_committed(one.load.ends)
    app.stop()
    refused = one.proxy.refused_requests
    assert one.letters() == []
    assert one.events.of(OutputRefused) == []
    assert len(one.replaced()) <= refused, one.replaced()
    assert len(one.events.of(TransactionAborted)) <= (ABORTS_MAX * refused if one.is_exact else 0)
    one.judge(without=set(), repeats_max=refused)
