"""What the producer behind `app.producer` hands to its client, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import NotDeliveredError
from ehkafka.outputs.own_producer import OwnProducer
from ehkafka.settings import Settings


class Client:
    """Takes all that it is given; a test answers."""

    def __init__(self) -> None:
        self.given: list[tuple[bytes, Any]] = []

    def produce(self, _topic: str, value: bytes, _key: Any, _partition: int, answer: Any) -> None:
        """Take a message."""
        self.given.append((value, answer))

    def acknowledge(self, offset: int | None = 7) -> list[bytes]:
        """Say that all is written, and where; return what that was."""
        given, self.given = self.given, []
        for _, answer in given:
            answer(None, SimpleNamespace(partition=lambda: 1, offset=lambda: offset))
        return [value for value, _ in given]


@pytest.fixture
def own() -> OwnProducer:
    """Return one that was never opened."""
    settings = Settings(group="g", start="earliest")
    endpoint = ehkafka.Endpoint.kafka("127.0.0.1:9")
    return OwnProducer(endpoint, settings, emit=lambda _: None, on_death=lambda _: None)


def put(own: OwnProducer, *values: bytes, partition: int | None = None) -> None:
    """Add messages whose keys are their first letters."""
    for value in values:
        message = own.message("t", value, key=value[:1], headers=None, partition=partition)
        assert own._messages.add(message, 0.0)


def rounds(own: OwnProducer, client: Client) -> list[list[bytes]]:
    """Return what goes together, until nothing is left."""
    found = []
    while own._messages.count():
        own._hand_over(client)
        found.append(client.acknowledge())
    return found


def test_the_first_message_of_a_key_is_acknowledged_before_the_second_goes(own: OwnProducer) -> None:
    """A broker takes any sequence number as the first: what is ready by then would pass a refused one."""
    client = Client()
    put(own, b"a1", b"a2", b"b3", b"a4")
    own._hand_over(client)
    # And nothing looks at them again meanwhile: there may be thousands.
    assert [one.output.value for one in own._parked] == [b"a2", b"a4"]
    assert client.acknowledge() == [b"a1", b"b3"]
    put(own, b"a5", b"b6")
    assert rounds(own, client) == [[b"a2", b"a4", b"a5", b"b6"]]
    put(own, b"a7", b"a8", partition=2)
    assert rounds(own, client) == [[b"a7"], [b"a8"]]


def test_another_client_has_had_none(own: OwnProducer) -> None:
    """Its broker takes any number as its first one."""
    client = Client()
    put(own, b"a1")
    rounds(own, client)
    own._renew()
    put(own, b"a2", b"a3")
    assert rounds(own, client) == [[b"a2"], [b"a3"]]


def test_what_waits_for_its_keys_first_message_times_out(own: OwnProducer) -> None:
    """The client, which has a time-out of its own, was not given it."""
    client = Client()
    put(own, b"a1", b"a2")
    own._hand_over(client)
    [second] = own._parked
    second.ends_s = 0.0
    own._fail_late()
    with pytest.raises(NotDeliveredError, match=r"it timed out \(message.timeout.ms\)"):
        second.future.result(0.0)
    put(own, b"a3")
    assert client.acknowledge() == [b"a1"]
    assert rounds(own, client) == [[b"a3"]]


def test_a_message_that_is_written_at_no_known_place_is_sent_again(own: OwnProducer) -> None:
    """The client concludes that from a later answer; so no later one counts, and a key keeps its order."""
    client = Client()
    put(own, b"a1")
    rounds(own, client)
    put(own, b"a2", b"a3")
    futures = [message.future for message in own._messages.queue]
    own._producer.client = client
    own._hand_over(client)
    [(_, doubted), (_, later)], client.given = client.given, []
    for answer, offset in ((doubted, None), (later, 9)):
        answer(None, SimpleNamespace(partition=lambda: 1, offset=lambda at=offset: at))
    assert [future.done() for future in futures] == [False, False]
    assert own._producer.is_lost
    own._producer.client = None
    own._renew()
    assert rounds(own, client) == [[b"a2"], [b"a3"]]
    assert [future.result().offset for future in futures] == [7, 7]


def test_without_producer_ids_one_message_of_a_key_is_on_its_way(own: OwnProducer) -> None:
    """There nothing holds back what follows a refused one."""
    own._producer.is_plain = True
    put(own, b"a1", b"a2", b"a3")
    assert rounds(own, Client()) == [[b"a1"], [b"a2"], [b"a3"]]
