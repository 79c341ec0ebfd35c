"""What a producer of outputs is set to, whatever the app asks for."""

from __future__ import annotations

import pytest

import ehkafka
from ehkafka.endpoint.properties.layers import without_ids
from ehkafka.errors import ConfigurationError
from ehkafka.outputs.properties import may_report_at_once, message_properties, output_properties
from ehkafka.settings import Settings

ENDPOINT = ehkafka.Endpoint.kafka("127.0.0.1:9")


def settings(**producer: object) -> Settings:
    """Return an app's settings with properties for its producers."""
    return Settings(group="g", start="earliest", producer=producer)  # type: ignore[arg-type]


def test_one_report_stands_for_a_batch_because_its_producer_gives_nothing_up() -> None:
    """The last one's report stands for a batch, so none before it may be given up and the last one not."""
    found = output_properties(ENDPOINT, settings(**{"message.timeout.ms": 1_000}))
    assert found["message.timeout.ms"] == 0
    assert found["enable.gapless.guarantee"] is True
    assert found["enable.idempotence"] is True
    with pytest.raises(ConfigurationError, match=r"enable\.gapless\.guarantee.*Leave it out"):
        output_properties(ENDPOINT, settings(**{"enable.gapless.guarantee": False}))


def test_messages_time_out_and_none_passes_one_that_is_refused() -> None:
    """Without producer ids the client has no such guarantee."""
    found = message_properties(ENDPOINT, settings(**{"message.timeout.ms": 1_000}))
    assert (found["message.timeout.ms"], found["enable.gapless.guarantee"]) == (1_000, True)
    assert "enable.gapless.guarantee" not in without_ids(found)


@pytest.mark.parametrize(
    "asked", [{"retries": 5}, {"queue.buffering.max.kbytes": 1_000}, {"queue.buffering.max.messages": 10}]
)
def test_where_the_client_may_give_one_up_each_output_is_reported(asked: dict[str, object]) -> None:
    """Then the last one's report says nothing of those before."""
    assert may_report_at_once(output_properties(ENDPOINT, settings()))
    assert not may_report_at_once(output_properties(ENDPOINT, settings(**asked)))


def test_an_app_decides_how_many_outputs_are_in_a_batch() -> None:
    """Ours is a default, as `linger.ms` is librdkafka's."""
    assert output_properties(ENDPOINT, settings())["batch.num.messages"] == 1_000
    found = output_properties(ENDPOINT, settings(**{"batch.num.messages": 50, "linger.ms": 7}))
    assert (found["batch.num.messages"], found["linger.ms"]) == (50, 7)


@pytest.mark.parametrize("name", ["max.in.flight.requests.per.connection", "enable.idempotence"])
def test_without_producer_ids_one_request_goes_at_a_time(name: str) -> None:
    """An app may say what is ours anyway: there the one would give up the order, the other wants an id."""
    given = {"max.in.flight.requests.per.connection": 5, "enable.idempotence": True}
    found = without_ids(output_properties(ENDPOINT, settings(**{name: given[name]})))
    assert found["enable.idempotence"] is False
    assert found["max.in.flight.requests.per.connection"] == 1
    assert "enable.gapless.guarantee" not in found
