"""Letters on their way home by way of producers that fail: none is left out, and their order is kept."""

from __future__ import annotations

import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs import replacement
from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.letters.letter import letter_origin
from ehkafka.redrive import redrive
from ehkafka.redrive.redrive import Redrive, RedriveRun
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.records import Headers

DEAD = TopicPartition("dead", 0)
ORIGIN: Headers = [("ehkafka-origin-topic", b"t"), ("ehkafka-origin-partition", b"0")]
ALWAYS = 10_000


class Member:
    """The only one of its group."""

    def __init__(self) -> None:
        self.committed: list[int] = []

    def poll(self, timeout_s: float) -> None:
        """Bring nothing."""
        time.sleep(timeout_s)

    def commit(self, *, offsets: Any, asynchronous: bool) -> None:
        """Note how far it is."""
        assert not asynchronous
        self.committed += [one.offset for one in offsets]


class Way:
    """A run of a redrive that is given its letters."""

    def __init__(self, broker: EmbeddedBroker, **consumer: Any) -> None:
        self.broker = broker
        target = Target(endpoint=Endpoint.kafka(broker.bootstrap), consumer=consumer)
        self.member = Member()
        consumer_like: Any = self.member
        self.run = RedriveRun(Redrive(target=target, topic="dead"), consumer_like, lambda _count: None)
        self.run._assigned, self.run._epochs = [1], {DEAD: Epoch(DEAD, 0, {})}
        self.run._next, self.run._committed = {DEAD: 0}, {DEAD: 0}
        self.sender = self.run._sender

    def send(self, *numbers: int, key: bytes = b"k", value: bytes = b"") -> None:
        """Send letters."""
        for number in numbers:
            headers = [("own", b"1"), *ORIGIN]
            message = SimulatedMessage(*DEAD, number, key, value or b"%d" % number, headers=headers)
            record = Record(message)
            self.run._take_up((record, letter_origin(record)))

    @property
    def safe(self) -> int:
        """How many are at home, by what the run counts."""
        return self.run._count.redriven

    def wait_for(self, true: Callable[[], Any]) -> None:
        """Wait with a deadline, as a redrive does."""
        wait_until(true, meanwhile=self.run._check)

    def at_home(self) -> list[bytes]:
        """Return the values that are at home now."""
        return [value for _, value in read_all(self.broker.bootstrap, "t")]


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """Return a way home whose next producers come soon, and which checks often."""
    monkeypatch.setattr(replacement, "FIRST_S", 0.01)
    monkeypatch.setattr(redrive, "COMMIT_S", 0.01)
    with EmbeddedBroker({"t": 1}) as broker:
        way = Way(broker)
        yield way
        way.sender.stop(0.0)


@pytest.mark.parametrize("code", [47, 49, 59])
def test_a_forgotten_id_is_replaced_and_the_letters_keep_their_order(way: Way, code: int) -> None:
    """Each is at home once; what the old producer had comes before what is sent meanwhile."""
    way.sender.start()
    way.send(0)
    way.wait_for(lambda: way.safe == 1)
    way.broker.track_requests()
    way.broker.delay_next(ApiKey.INIT_PRODUCER_ID, 0.2)
    way.broker.fail_next(ApiKey.PRODUCE, *[code] * ALWAYS)
    way.send(1, 2, 3)
    way.wait_for(lambda: way.broker.requests(ApiKey.INIT_PRODUCER_ID))
    way.broker.clear_failures(ApiKey.PRODUCE)
    way.send(4)
    way.wait_for(lambda: way.safe == 5)
    assert way.at_home() == [b"0", b"1", b"2", b"3", b"4"]


def test_what_no_producer_can_write_ends_the_redrive_with_the_reason(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time without an acknowledgement: a person has started it, and waits."""
    monkeypatch.setattr(redrive, "SILENT_S", 2.0)
    way.sender.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[49] * ALWAYS)
    way.send(7, 8)
    with pytest.raises(
        EndpointError, match=r"No dead letter was written within .*INVALID_PRODUCER_ID_MAPPING"
    ):
        way.wait_for(lambda: way.safe)
    assert (way.safe, way.member.committed) == (0, [7])


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION])
def test_what_is_refused_alone_too_ends_the_redrive(way: Way, code: int) -> None:
    """The letter is named, and the reason; what is behind it in its partition stays, whatever its key."""
    way.sender.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[code] * 2)
    way.send(7)
    way.send(8, key=b"other")
    with pytest.raises(EndpointError, match=rf"letter 0@7 could .* t\[0\]: .*{KafkaError(code).name()}"):
        way.wait_for(lambda: way.safe)
    way.sender.stop(0.2)
    way.run._commit()
    assert (way.safe, way.at_home()) == (0, [])
    assert max(way.member.committed) == 7


def test_a_refused_batch_goes_one_by_one_in_the_order_of_the_partition(way: Way) -> None:
    """Whatever the keys are: letters of a partition keep their order."""
    way.sender.start()
    way.broker.fail_next(ApiKey.PRODUCE, KafkaError.POLICY_VIOLATION)
    for number in range(20):
        way.send(number, key=b"k%d" % (number % 7))
    way.wait_for(lambda: way.safe == 20)
    assert way.at_home() == [b"%d" % number for number in range(20)]


def test_a_letter_that_is_too_large_names_the_property(way: Way) -> None:
    """Its limit is the service's; another one is chosen by property."""
    way = Way(way.broker, **{"message.max.bytes": 2_000})
    way.sender.start()
    way.send(1, value=b"x" * 3_000)
    with pytest.raises(EndpointError, match=r"0@1 .*MSG_SIZE_TOO_LARGE.*raise .*message\.max\.bytes"):
        way.wait_for(lambda: way.safe)
    way.sender.stop(0.0)


def test_another_member_ends_the_redrive(way: Way) -> None:
    """It may have committed already, so nothing is committed any more."""
    way.sender.start()
    way.send(0)
    wait_until(lambda: way.safe)
    for partitions in (0, 1):  # taken away, and given back
        way.run._assigned.append(partitions)
        with pytest.raises(ConfigurationError, match="another redrive probably runs"):
            way.run._check()
        way.run._commit()
    assert way.member.committed == []
    way.run._assigned = [1]
    way.run._commit()
    assert way.member.committed == [1]


def test_a_sender_that_dies_ends_the_redrive(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours: letters would wait for ever."""
    way.sender.start()
    monkeypatch.setattr(way.sender, "_turn", lambda: int("a bug"))
    way.send(1)
    with pytest.raises(ValueError, match="a bug"):
        way.wait_for(lambda: way.safe)


@pytest.mark.parametrize("fails", [False, True])
def test_a_last_commit_that_fails_does_not_hide_why_the_redrive_ended(
    way: Way, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """The first error says what to do; without one the commit's is the reason."""

    def letters(_reader: object) -> Iterator[None]:
        way.send(0)
        wait_until(lambda: way.safe)
        if fails:
            raise EndpointError("the first error")
        yield None

    reader = SimpleNamespace(begins={DEAD: 0}, ends={DEAD: 1})
    monkeypatch.setattr(Redrive, "reader", lambda _self: nullcontext(reader))
    monkeypatch.setattr(redrive, "as_written", letters)
    monkeypatch.setattr(way.run, "_join", lambda: None)
    refuse = KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN, "away"))

    def commit(**_: object) -> None:
        raise refuse

    monkeypatch.setattr(redrive, "COMMIT_S", 60.0)
    way.run._next_commit_s = time.monotonic() + 60.0
    monkeypatch.setattr(way.member, "commit", commit)
    with pytest.raises(EndpointError if fails else KafkaException) as ended:
        way.run.bring_home()
    notes = [note.partition(" (")[0] for note in getattr(ended.value, "__notes__", [])]
    assert notes == (["The last commit also failed: _ALL_BROKERS_DOWN"] if fails else [])
