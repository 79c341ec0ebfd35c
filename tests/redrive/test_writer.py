"""Letters on their way home by way of producers that fail: none is left out, and their order is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ehkafka import Endpoint
from ehkafka.checks import Target
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError
from ehkafka.outputs import replacement
from ehkafka.records import TopicPartition as Partition
from ehkafka.redrive import writer as redrive_writer
from ehkafka.redrive.writer import Homecoming, HomeWriter
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOME = Partition("t", 0)


class Way:
    """A writer, and the letters that are safe by what it says."""

    def __init__(self, broker: EmbeddedBroker, **consumer: Any) -> None:
        self.broker = broker
        target = Target(endpoint=Endpoint.kafka(broker.bootstrap), consumer=consumer)
        self.events = Events()
        self.safe: list[int] = []
        self.writer = HomeWriter(target, self.events.append)

    def send(self, *numbers: int, value: bytes = b"") -> None:
        """Send letters."""
        for number in numbers:
            what = value or b"%d" % number
            safe = lambda number=number: self.safe.append(number)  # noqa: E731
            self.writer.send(Homecoming(f"0@{number}", HOME, b"k", what, [("own", b"1")], safe))

    def serve_until(self, true: Callable[[], Any]) -> None:
        """Serve with a deadline."""
        wait_until(true, meanwhile=lambda: self.writer.serve(0.01))

    def at_home(self, records: int) -> list[bytes | None]:
        """Return the values of the first records at home."""
        reader = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "r"})
        try:
            reader.assign([TopicPartition("t", 0, 0)])
            return [message.value() for message in reader.consume(records, 10.0)]
        finally:
            reader.close()


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """Return a writer whose replacements come soon."""
    monkeypatch.setattr(replacement, "FIRST_S", 0.01)
    with EmbeddedBroker({"t": 1}) as broker:
        way = Way(broker)
        yield way
        way.writer.finish(0.0)


@pytest.mark.parametrize("code", [47, 49, 59])
def test_a_forgotten_id_is_replaced_and_the_letters_keep_their_order(way: Way, code: int) -> None:
    """Each is safe once; what the old producer had comes before what is sent meanwhile."""
    way.writer.start()
    way.send(0)
    way.serve_until(lambda: way.safe == [0])
    way.broker.track_requests()
    way.broker.delay_next(ApiKey.INIT_PRODUCER_ID, 0.2)
    way.broker.fail_next(ApiKey.PRODUCE, *[code] * 10_000)
    way.send(1, 2, 3)
    way.serve_until(lambda: way.broker.requests(ApiKey.INIT_PRODUCER_ID))
    way.broker.clear_failures(ApiKey.PRODUCE)
    way.send(4)
    way.serve_until(lambda: way.writer.in_flight == 0)
    assert way.safe == [0, 1, 2, 3, 4]
    assert way.at_home(5) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_no_producer_can_write_ends_the_redrive_with_the_reason(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few in a row: a person has started it, and waits."""
    monkeypatch.setattr(redrive_writer, "REPLACED_MAX", 2)
    way.writer.start()
    way.broker.fail_next(ApiKey.PRODUCE, *[49] * 10_000)
    way.send(7, 8)
    with pytest.raises(EndpointError, match=r"letter 0@7 could not .* t\[0\].*INVALID_PRODUCER_ID_MAPPING"):
        way.serve_until(lambda: way.safe)
    assert way.safe == []


def test_what_no_other_try_would_fix_ends_it_at_once(way: Way) -> None:
    """The letter is named, and the rights that are missing."""
    way.writer.start()
    way.broker.fail_next(ApiKey.PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    way.send(7)
    with pytest.raises(EndpointError, match=r"letter 0@7 .*TOPIC_AUTHORIZATION_FAILED"):
        way.serve_until(lambda: way.safe)


def test_a_letter_that_is_too_large_names_the_property(way: Way) -> None:
    """Its limit is the service's; another one is chosen by property."""
    way = Way(way.broker, **{"message.max.bytes": 2_000})
    way.writer.start()
    way.send(1, value=b"x" * 3_000)
    with pytest.raises(EndpointError, match=r"0@1 could .*MSG_SIZE_TOO_LARGE.*raise message\.max\.bytes"):
        way.serve_until(lambda: way.safe)
    way.writer.finish(0.0)


def test_a_broker_without_ids_is_sent_one_letter_at_a_time(way: Way) -> None:
    """One that fails could otherwise be overtaken."""
    way.broker.disable(ApiKey.INIT_PRODUCER_ID)
    way.writer.start()
    assert way.writer.in_flight_max == 1
    way.send(1)
    way.serve_until(lambda: way.safe == [1])
