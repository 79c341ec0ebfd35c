"""A broker that forgets the id of the letters' producer, or never gives one: said at once, and fixed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Producer

import ehkafka
from ehkafka.events import DeadLetterFailed, ProducerPlain, ProducerReplaced
from ehkafka.recovery.letters import target
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

TO_DEAD = ehkafka.DeadLetter("dead")


class ForgetfulBroker:
    """Answers every produce request with one error, until a client asks for a producer id."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def ids_asked(self) -> int:
        """How many requests for an id came since `forget`."""
        return len(self.broker.requests(ApiKey.INIT_PRODUCER_ID))

    def forget(self, code: int) -> None:
        """Forget all ids that were given by now."""
        self.broker.track_requests()
        # The answer comes after this thread has seen the request.
        self.broker.delay_next(ApiKey.INIT_PRODUCER_ID, 0.2)
        self.broker.fail_next(ApiKey.PRODUCE, *[code] * 10_000)
        self._thread = threading.Thread(target=self._remember)
        self._thread.start()

    def _remember(self) -> None:
        while not self._over.wait(0.002):
            if self.ids_asked:
                self.broker.clear_failures(ApiKey.PRODUCE)
                return

    def end(self) -> None:
        """End the thread."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


@pytest.fixture
def forgetful(lab: Any) -> Iterator[ForgetfulBroker]:
    """Return the lab's broker, which has a topic for dead letters."""
    lab.broker.create_topic("dead", 1)
    broker = ForgetfulBroker(lab.broker)
    yield broker
    broker.end()


def fails_on_bad(record: Any) -> None:
    """Handle a record."""
    if record.key().startswith(b"bad"):
        raise ValueError("no luck")


@pytest.mark.parametrize("code", [47, 49, 59])
def test_a_forgotten_producer_id_is_replaced_and_every_letter_is_written(
    lab: Any, forgetful: ForgetfulBroker, code: int, events: Any, read_topic: Any
) -> None:
    """The service answers so for ever to the old id: each letter is safe by a new one, in its key's order."""
    app = lab.start(fails_on_bad, on_failure=TO_DEAD)
    lab.produce("bad0 a bad1")
    wait_until(lambda: lab.committed() == 3)
    lab.produce("bad0 b bad1 bad0 c")
    forgetful.forget(code)
    wait_until(lambda: lab.committed() == 8)
    app.stop()
    letters = read_topic("dead", 5)
    assert [m.key() for m in letters if m.key() == b"bad0"] == [b"bad0"] * 3
    offsets = [int(dict(m.headers())["ehkafka-origin-offset"]) for m in letters if m.key() == b"bad0"]
    assert offsets == [0, 3, 6]
    # The new producer's, and one more where librdkafka raised the old one's epoch before it was given up.
    assert 1 <= forgetful.ids_asked <= 2
    assert len(events.of(ProducerReplaced)) == 1


@pytest.mark.parametrize("is_function", [False, True])
def test_letters_without_an_answer_turn_health_red_until_they_are_safe(
    lab: Any, forgetful: ForgetfulBroker, events: Any, monkeypatch: pytest.MonkeyPatch, *, is_function: bool
) -> None:
    """A silent broker, or a function that does not return, is reported like a refusal, with the reason."""
    monkeypatch.setattr(target, "LATE_S", 0.3)
    go_on = threading.Event()

    def keep(_letter: Any) -> None:
        go_on.wait(20.0)

    app = lab.start(fails_on_bad, on_failure=ehkafka.DeadLetter(keep) if is_function else TO_DEAD)
    if not is_function:
        forgetful.broker.move_leader("dead", 0, None)
    lab.produce("bad a")
    wait_until(lambda: not app.health().ok and events.of(DeadLetterFailed))
    (reason,) = app.health().reasons
    assert (
        f"The dead letter of t[0]@0 has not been acknowledged by {'keep' if is_function else 'dead'}"
        in reason
    )
    assert ("the function has not returned" if is_function else "the broker has not answered") in reason
    (late,) = events.of(DeadLetterFailed)
    assert (late.offset, late.key, late.retry_s) == (0, "bad", 0.0)
    go_on.set()
    if not is_function:
        forgetful.broker.move_leader("dead", 0, 1)
    wait_until(lambda: app.health().ok and lab.committed() == 2)


@pytest.mark.usefixtures("forgetful")
def test_an_id_that_is_refused_for_good_is_an_error_of_the_start(lab: Any) -> None:
    """Not of the first record that fails, perhaps days later."""
    lab.broker.fail_next(ApiKey.INIT_PRODUCER_ID, *[KafkaError.CLUSTER_AUTHORIZATION_FAILED] * 100)
    app = lab.app(fails_on_bad, on_failure=TO_DEAD)
    with pytest.raises(
        ehkafka.errors.EndpointError, match=r"refuses an id to their producer.*IDEMPOTENT_WRITE"
    ):
        app.start()


def test_the_start_waits_for_the_id(lab: Any, forgetful: ForgetfulBroker) -> None:
    """A producer that has none yet would take its first letter and keep it."""
    forgetful.broker.track_requests()
    forgetful.broker.fail_next(ApiKey.INIT_PRODUCER_ID, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    lab.start(fails_on_bad, on_failure=TO_DEAD)
    assert forgetful.ids_asked == 2


def test_a_broker_without_producer_ids_is_written_to_all_the_same(
    lab: Any, forgetful: ForgetfulBroker, events: Any, read_topic: Any
) -> None:
    """The emulator's old front end may be one: letters are written by a plain producer, and it is said."""
    forgetful.broker.disable(ApiKey.INIT_PRODUCER_ID)
    app = lab.start(fails_on_bad, on_failure=TO_DEAD)
    lab.produce("bad bad a bad")
    wait_until(lambda: lab.committed() == 4)
    assert app.health().ok
    app.stop()
    offsets = [int(dict(m.headers())["ehkafka-origin-offset"]) for m in read_topic("dead", 3)]
    assert offsets == [0, 1, 3]
    (plain,) = events.of(ProducerPlain)
    assert "Idempotent producer not supported" in plain.reason


def test_a_record_of_the_largest_size_is_copied(lab: Any, read_topic: Any) -> None:
    """What was received may be larger than librdkafka's own limit for what it sends."""
    lab.broker.create_topic("dead", 1)
    producer = Producer({"bootstrap.servers": lab.broker.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce("t", b"x" * 1_045_000, b"bad", partition=0)
    assert producer.flush(10.0) == 0
    app = lab.start(fails_on_bad, on_failure=TO_DEAD)
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert [len(m.value()) for m in read_topic("dead", 1)] == [1_045_000]


def test_a_stop_while_the_producer_is_replaced_ends_in_time(
    lab: Any, forgetful: ForgetfulBroker, events: Any
) -> None:
    """The letter's record is not committed, so its next owner writes it."""
    app = lab.start(fails_on_bad, on_failure=TO_DEAD)
    forgetful.broker.fail_next(ApiKey.PRODUCE, 0, *[49] * 10_000)  # the test's own request passes
    lab.produce("bad")
    wait_until(lambda: events.of(ProducerReplaced))
    began_s = time.monotonic()
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(timeout_s=0.5)
    assert time.monotonic() - began_s < 5.0
    assert lab.committed() in (None, 0)
