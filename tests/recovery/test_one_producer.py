"""The letters' producer: its id at the start, what replaces it, and what becomes of the letters it had."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.errors import EndpointError
from ehkafka.events import ConnectionProblem, DeadLetterProducerPlain, DeadLetterProducerReplaced
from ehkafka.outputs import replacement
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

ASKING = '{"eos": {"idemp_state": "RequestPID"}}'
GIVEN = '{"eos": {"idemp_state": "Assigned", "producer_epoch": 0}}'
RAISED = '{"eos": {"idemp_state": "Assigned", "producer_epoch": 3}}'


def test_a_start_without_an_id_tells_why_and_goes_on(new_lab: Callable[[], Any]) -> None:
    """What is refused for now is asked for again by the client; its reason is the health's, too."""
    lab = new_lab()
    lab.ids.append(ASKING)
    opened = lab.open

    def open_refused(callbacks: Any, is_plain: bool) -> Any:
        producer = opened(callbacks, is_plain)
        line = "GETPID [rdkafka#producer-1] [thrd:main]: Failed to acquire idempotence PID: Busy: retrying"
        callbacks.logger.log(30, "%s", line)
        return producer

    lab.producer._open_client = open_refused
    lab.topics.start(0.05)
    (reported,) = lab.events.of(ConnectionProblem)
    assert "given the producer no id: Failed to acquire idempotence PID: Busy" in reported.error
    assert "Busy" in lab.topics.problem
    lab.producers[0].callbacks.stats_cb(GIVEN)
    lab.post(1)
    lab.wait_for(lambda: lab.answers)
    assert lab.topics.problem == "the broker has not answered"
    assert lab.deaths == []


def test_an_id_that_is_refused_for_good_is_an_error_of_the_start(new_lab: Callable[[], Any]) -> None:
    """Else it would be found out with the first record that fails."""
    lab = new_lab()
    refusal = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "not you", fatal=True)
    lab.ids.append(ASKING)
    lab.on_open = lambda callbacks: callbacks.error_cb(refusal)
    with pytest.raises(EndpointError, match=r"refuses an id.*CLUSTER_AUTHORIZATION_FAILED \(not you\)"):
        lab.topics.start()
    assert len(lab.producers) == 1


def test_a_broker_without_ids_gets_a_plain_producer(new_lab: Callable[[], Any]) -> None:
    """As the emulator's may be; it is said, and letters are written."""
    lab = new_lab()
    refusal = KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no such request", fatal=True)
    lab.ids.extend([ASKING, ASKING])
    lab.on_open = lambda callbacks: None if lab.plain[-1] else callbacks.error_cb(refusal)
    lab.topics.start()
    lab.post(1)
    lab.wait_for(lambda: lab.answers)
    assert lab.plain == [False, True]
    assert [reported.reason for reported in lab.events.of(DeadLetterProducerPlain)] == ["no such request"]


@pytest.mark.parametrize("code", [47, 49, 59])
def test_a_forgotten_id_replaces_the_producer_and_no_letter_is_lost_or_answered_twice(
    lab: Any, code: int
) -> None:
    """One letter is refused, one has no answer, one is new: each is safe once, the old ones first."""
    lab.script.extend(["silence", KafkaError(code)])
    for number in (1, 2):
        lab.post(number)
    lab.wait_for(lambda: len(lab.producers) == 2)
    lab.post(3)
    lab.wait_for(lambda: len(lab.answers) == 3)
    assert sorted(lab.answers) == [(number, Outcome.DEAD_LETTERED) for number in (1, 2, 3)]
    (replaced,) = lab.events.of(DeadLetterProducerReplaced)
    assert replaced.reason.startswith(KafkaError(code).name())


def test_the_third_failure_in_a_row_replaces_the_producer(lab: Any) -> None:
    """Of whatever kind: here of two."""
    other = KafkaError(KafkaError.NOT_ENOUGH_REPLICAS)
    lab.script.extend([KafkaError(KafkaError._MSG_TIMED_OUT), other, other])
    lab.post(1)
    lab.wait_for(lambda: lab.answers)
    assert len(lab.producers) == 2


def test_an_id_that_the_client_hides_replaces_the_producer(lab: Any) -> None:
    """Error 59 is retried by librdkafka, which raises its epoch each time and tells nobody."""
    lab.script.append("silence")
    lab.post(1)
    lab.wait_for(lambda: lab.producers[0].silent)
    lab.producers[0].callbacks.stats_cb(RAISED)
    lab.wait_for(lambda: lab.answers)
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
    assert len(lab.producers) == 2


def test_producers_that_fail_one_after_the_other_are_opened_ever_more_slowly(
    new_lab: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is the event's; a stop meanwhile is not held up by it."""
    monkeypatch.setattr(replacement, "FIRST_S", 0.02)
    lab = new_lab()
    lab.script.extend([KafkaError(49)] * 5)
    lab.topics.start()
    lab.post(1)
    lab.wait_for(lambda: len(lab.events.of(DeadLetterProducerReplaced)) == 5)
    waits_s = [reported.wait_s for reported in lab.events.of(DeadLetterProducerReplaced)]
    assert waits_s == [0.02, 0.04, 0.08, 0.16, 0.32]
    began_s = time.monotonic()
    lab.topics.stop(5.0)
    assert time.monotonic() - began_s < 3.0
    assert not lab.topics._thread.is_alive()
    assert lab.answers == []


def test_a_letter_that_is_too_large_loses_its_errors_text_first(lab: Any) -> None:
    """Nothing of the record; what the text said is in the log."""
    large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    lab.script.extend([large, large])
    lab.post(1, headers=[("own", b"1"), ("ehkafka-error-text", b"x" * 1000), ("ehkafka-group", b"g")])
    lab.wait_for(lambda: lab.answers)
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
    assert [dict(headers)["ehkafka-error-text"] for headers in lab.producers[0].headers] == [
        b"x" * 1000,
        b"x" * 100,
        b"x" * 10,
    ]
    assert lab.producers[0].headers[-1][0] == ("own", b"1")
