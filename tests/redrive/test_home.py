"""Letters on their way home by way of producers that fail: none is left out, and their order is kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka import Endpoint
from ehkafka.checks import Target
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError
from ehkafka.outputs import replacement
from ehkafka.records import Record
from ehkafka.records import TopicPartition as Partition
from ehkafka.redrive import home
from ehkafka.redrive.home import Homecoming, WayHome
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOME = Partition("t", 0)
ALWAYS = 10_000


class Way:
    """A way home, and the letters that are safe by what it says."""

    def __init__(self, broker: EmbeddedBroker, **consumer: Any) -> None:
        self.broker = broker
        target = Target(endpoint=Endpoint.kafka(broker.bootstrap), consumer=consumer)
        self.safe: list[int] = []
        self.sent: list[Homecoming] = []
        self.home = WayHome(target, lambda one: self.safe.append(one.letter.offset()))

    def send(self, *numbers: int, key: bytes = b"k", value: bytes = b"") -> None:
        """Send letters."""
        for number in numbers:
            message = SimulatedMessage("dead", 0, number, key, value or b"%d" % number)
            self.sent.append(self.home.send(Record(message), [("own", b"1")], HOME))

    def check(self) -> None:
        """Raise what ends a redrive."""
        if left := [one for one in self.sent if not one.is_safe]:
            self.home.check(left[0])

    def wait_for(self, true: Callable[[], Any]) -> None:
        """Wait with a deadline, as a redrive does."""
        wait_until(true, meanwhile=self.check)

    def at_home(self) -> list[bytes]:
        """Return the values that are at home now."""
        return [value for _, value in read_all(self.broker.bootstrap, "t")]


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """Return a way home whose next producers and tries come soon."""
    monkeypatch.setattr(replacement, "FIRST_S", 0.01)
    monkeypatch.setattr(home, "AGAIN_S", 0.01)
    with EmbeddedBroker({"t": 1}) as broker:
        way = Way(broker)
        yield way
        way.home.stop()


@pytest.mark.parametrize("code", [47, 49, 59])
def test_a_forgotten_id_is_replaced_and_the_letters_keep_their_order(way: Way, code: int) -> None:
    """Each is safe once; what the old producer had comes before what is sent meanwhile."""
    way.home.start()
    way.send(0)
    way.wait_for(lambda: way.safe == [0])
    way.broker.track_requests()
    way.broker.delay_next(ApiKey.INIT_PRODUCER_ID, 0.2)
    way.broker.fail_next(ApiKey.PRODUCE, *[code] * ALWAYS)
    way.send(1, 2, 3)
    way.wait_for(lambda: way.broker.requests(ApiKey.INIT_PRODUCER_ID))
    way.broker.clear_failures(ApiKey.PRODUCE)
    way.send(4)
    way.wait_for(lambda: len(way.safe) == 5)
    assert way.safe == [0, 1, 2, 3, 4]
    assert way.at_home() == [b"0", b"1", b"2", b"3", b"4"]


def test_what_no_producer_can_write_ends_the_redrive_with_the_reason(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few in a row: a person has started it, and waits."""
    monkeypatch.setattr(home, "REPLACED_MAX", 2)
    way.home.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[49] * ALWAYS)
    way.send(7, 8)
    why = r"letter 0@7 could not .* t\[0\], whichever of 3 producers.*INVALID_PRODUCER_ID_MAPPING"
    with pytest.raises(EndpointError, match=why):
        way.wait_for(lambda: way.safe)
    assert way.safe == []


def test_what_no_other_try_would_fix_ends_it_at_once(way: Way) -> None:
    """The letter is named, and the rights that are missing; what is behind it stays, whatever its key."""
    way.home.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2)
    way.send(7)
    way.send(8, key=b"other")
    with pytest.raises(EndpointError, match=r"letter 0@7 .*TOPIC_AUTHORIZATION_FAILED"):
        way.wait_for(lambda: way.safe)
    way.home.stop()
    assert way.safe == []
    assert way.at_home() == []


@pytest.mark.parametrize("refusals", [3, ALWAYS])
def test_a_refusal_that_may_pass_is_tried_again_in_the_order_of_the_partition(
    way: Way, refusals: int
) -> None:
    """Whatever the keys are: letters of a partition keep their order. Too many in a row end the redrive."""
    way.home.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[KafkaError.POLICY_VIOLATION] * refusals)
    for number in range(20):
        way.send(number, key=b"k%d" % (number % 7))
    if refusals == ALWAYS:
        with pytest.raises(EndpointError, match=r"letter 0@0 .*POLICY_VIOLATION"):
            way.wait_for(lambda: way.safe)
        return
    way.wait_for(lambda: len(way.safe) == 20)
    assert way.safe == list(range(20))
    assert way.at_home() == [b"%d" % number for number in range(20)]


def test_a_letter_that_is_too_large_names_the_property(way: Way) -> None:
    """Its limit is the service's; another one is chosen by property."""
    way = Way(way.broker, **{"message.max.bytes": 2_000})
    way.home.start()
    way.send(1, value=b"x" * 3_000)
    with pytest.raises(EndpointError, match=r"0@1 could .*MSG_SIZE_TOO_LARGE.*raise message\.max\.bytes"):
        way.wait_for(lambda: way.safe)
    way.home.stop()


def test_a_broker_without_ids_is_sent_one_letter_at_a_time(way: Way) -> None:
    """One that fails could otherwise be overtaken."""
    way.broker.disable(ApiKey.INIT_PRODUCER_ID)
    way.home.start()
    assert way.home.has_room()
    way.broker.delay_next(ApiKey.PRODUCE, 0.2)
    way.send(1)
    assert not way.home.has_room()
    way.wait_for(lambda: way.safe == [1])
    way.wait_for(way.home.has_room)


def test_a_stop_takes_back_what_is_not_on_the_wire(way: Way) -> None:
    """What is acknowledged by then is safe, and nothing is written later."""
    way.home.start()
    way.broker.delay_next(ApiKey.PRODUCE, 0.5)
    way.send(0)
    time.sleep(0.1)  # on the wire
    way.send(1, 2, 3)
    way.home.stop()
    assert (way.safe, way.at_home()) == ([0], [b"0"])


def test_a_sender_that_dies_ends_the_redrive(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours: letters would wait for ever."""
    way.home.start()
    monkeypatch.setattr(way.home._sender, "_turn", lambda: int("a bug"))
    way.send(1)
    with pytest.raises(ValueError, match="a bug"):
        way.wait_for(lambda: way.safe)
