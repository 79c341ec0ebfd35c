"""`TopicLetters` with a producer that does as a test says: retries, refusals, replacement, and the end."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import ConfigurationError
from ehkafka.events import ConnectionProblem, DeadLetterFailed, RecordDeadLettered
from ehkafka.lanes.decision import HoldHead
from ehkafka.records import Outcome
from ehkafka.recovery.letters.function import FunctionSender
from ehkafka.recovery.policy import DeadLetter


def test_an_answer_comes_with_the_acknowledgement(lab: Any) -> None:
    """Not when the letter is sent."""
    lab.script.extend(["silence"])
    lab.post(1)
    lab.wait_for(lambda: lab.producers[0].silent)
    assert lab.answers == []
    lab.producers[0].silent[0](None, None)
    lab.wait_for(lambda: lab.answers)
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
    assert [(e.offset, e.to) for e in lab.events.of(RecordDeadLettered)] == [(1, "dead")]


@pytest.mark.parametrize(
    "problem",
    [
        KafkaError(KafkaError._MSG_TIMED_OUT),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART),
        BufferError("full"),
        KafkaException(KafkaError(KafkaError._QUEUE_FULL)),
    ],
    ids=repr,
)
def test_a_write_that_fails_is_tried_again_later_each_time(lab: Any, problem: Any) -> None:
    """Reported with the delay that follows, and never given up."""
    lab.script.extend([problem] * 3)
    lab.post(1)
    lab.wait_for(lambda: lab.answers)
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
    assert [e.retry_s for e in lab.events.of(DeadLetterFailed)] == [0.01, 0.02, 0.04]


def test_others_go_on_while_one_waits(lab: Any) -> None:
    """One letter's problem is not another's."""
    lab.script.extend([KafkaError(KafkaError._MSG_TIMED_OUT)])
    lab.post(1)
    lab.post(2)
    lab.wait_for(lambda: len(lab.answers) == 2)
    assert lab.answers == [(2, Outcome.DEAD_LETTERED), (1, Outcome.DEAD_LETTERED)]


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError(KafkaError.MSG_SIZE_TOO_LARGE),
        KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)),
        TypeError("a value of a type that cannot be sent"),
        ValueError("embedded null byte"),
    ],
    ids=repr,
)
def test_what_nobody_will_ever_take_is_given_back_to_be_held(lab: Any, refusal: Any) -> None:
    """Reported once, without a retry; the thread lives on."""
    lab.script.extend([refusal])
    lab.post(1)
    lab.post(2)
    lab.wait_for(lambda: len(lab.answers) == 2)
    held = dict(lab.answers)[1]
    assert isinstance(held, HoldHead)
    assert held.letter_refused
    assert "its dead letter is refused by dead" in held.reason
    assert dict(lab.answers)[2] is Outcome.DEAD_LETTERED
    assert [e.retry_s for e in lab.events.of(DeadLetterFailed)] == [None]


@pytest.mark.parametrize(
    "fatal",
    [
        "fatal",
        KafkaException(KafkaError(KafkaError._FATAL)),
        KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "lost", fatal=True),
    ],
    ids=["poll", "produce", "report"],
)
def test_a_producer_that_lost_its_place_is_replaced_and_nothing_is_lost(lab: Any, fatal: Any) -> None:
    """Letters that it still has are sent by the next one, with a watch of its own on the credential."""
    lab.script.extend(["silence", fatal])
    lab.post(1)
    lab.post(2)
    lab.wait_for(lambda: len(lab.answers) == 2)
    assert sorted(lab.answers) == [(1, Outcome.DEAD_LETTERED), (2, Outcome.DEAD_LETTERED)]
    assert len(lab.producers) == 2
    assert lab.watches[0].seen[-1] == "stop"
    assert lab.watches[1].seen[0] == "start"


def test_a_producer_that_cannot_be_opened_again_is_no_end(lab: Any) -> None:
    """The letter waits and is reported; the next try opens another."""
    lab.openings.append(ConfigurationError("the credential is away"))
    lab.script.extend([KafkaError(KafkaError._FATAL, "lost", fatal=True)])
    lab.post(1)
    lab.wait_for(lambda: lab.answers)
    assert lab.answers == [(1, Outcome.DEAD_LETTERED)]
    assert "the credential is away" in [e.error for e in lab.events.of(DeadLetterFailed)]


def test_a_letter_whose_assignment_has_ended_is_not_written(lab: Any) -> None:
    """Another member has the record and decides on it."""
    lab.post(1, ended=True)
    lab.wait_for(lambda: lab.answers)
    ((_, answer),) = lab.answers
    assert isinstance(answer, HoldHead)
    assert not answer.letter_refused
    assert lab.producers[0].sent == []


def test_errors_of_the_client_are_reported_and_a_refused_key_is_read_again(lab: Any) -> None:
    """The topics follows a rotating key as the consumer does."""
    lab.wait_for(lambda: "apply" in lab.watches[0].seen)
    lab.producers[0].callbacks.error_cb(KafkaError(KafkaError._AUTHENTICATION, "refused"))
    assert "check" in lab.watches[0].seen
    (reported,) = lab.events.of(ConnectionProblem)
    assert (reported.code, reported.error[:13], reported.fatal) == ("_AUTHENTICATION", "dead letters:", False)


def test_a_stop_waits_for_acknowledgements_and_not_for_ever(lab: Any) -> None:
    """What is not safe by then is counted, and belongs to records that are redelivered."""
    lab.script.extend(["silence", "silence"])
    lab.post(1)
    lab.post(2)
    lab.wait_for(lambda: len(lab.producers[0].silent) == 2)
    threading.Timer(0.05, lab.producers[0].silent.pop(), [None, None]).start()
    assert lab.topics.stop(0.3) == 1
    assert lab.answers == [(2, Outcome.DEAD_LETTERED)]
    assert lab.watches[0].seen[-1] == "stop"


def test_a_dead_letter_thread_ends_the_app_visibly(new_lab: Any) -> None:
    """Its letters' records would wait for ever, and nobody would know."""
    lab = new_lab()
    lab.topics.start()
    lab.script.append("broken")
    lab.post(1)
    lab.wait_for(lambda: lab.deaths)
    assert isinstance(lab.deaths[0], AttributeError)  # no answer of librdkafka's
    lab.topics.stop(1.0)


def test_a_functions_letter_waits_its_turn_and_others_pass(
    new_lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that raises, for whatever reason, is called again; the sender ends with the run."""
    monkeypatch.setattr("ehkafka.recovery.letters.function.RETRY_FIRST_S", 0.02)
    lab = new_lab()
    failures = [OSError("away"), KeyboardInterrupt()]

    def keep(letter: Any) -> None:
        if letter.offset == 1 and failures:
            raise failures.pop(0)

    lab.sender = sender = FunctionSender(DeadLetter(keep), lab.complete, emit=lab.events.append, history=None)
    lab.post(1)
    lab.post(2)
    lab.post(3, ended=True)
    lab.wait_for(lambda: len(lab.answers) == 3)
    assert [number for number, _ in lab.answers] == [2, 3, 1]
    assert isinstance(lab.answers[1][1], HoldHead)
    assert [e.retry_s for e in lab.events.of(DeadLetterFailed)] == [0.02, 0.04]
    sender.stop(5.0)
    assert sender._thread is not None
    assert not sender._thread.is_alive()
