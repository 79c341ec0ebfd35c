"""What cannot be sent soundly is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.events import OutputKindsDiffer
from ehkafka.testing import ApiKey
from tests.contract.output_handlers import bytes_by_send, json_of_any


def test_two_codecs_for_one_topic_end_the_start(lab: Any) -> None:
    """Readers of the topic could not decode both."""
    lab.broker.create_topic("out", 1)
    app = lab.app(None)

    @app.handler("t", to="out")
    def to_json(record: Any) -> dict[str, Any]:
        return {}

    @app.handler("u", to="out")
    def to_bytes(record: Any) -> bytes:
        return b""

    with pytest.raises(ConfigurationError, match=r"'to_json' sends .*'to_bytes' sends bytes"):
        app.start()


def test_a_broker_without_producer_ids_ends_the_start(lab: Any) -> None:
    """The order of outputs could not be kept there; dead letters alone may go without."""
    lab.broker.create_topic("out", 1)
    lab.broker.disable(ApiKey.INIT_PRODUCER_ID)
    app = lab.app(None)
    app.handler("t", to="out")(lambda record: record.value())
    with pytest.raises(EndpointError, match="this broker gives no producer ids"):
        app.start()


@pytest.mark.parametrize("workers", [4, ehkafka.Processes(2)], ids=["threads", "processes"])
def test_two_kinds_that_only_sending_shows_are_reported_once(
    lab: Any, events: Any, wait_for: Any, workers: Any
) -> None:
    """Also of a topic that is not the first of a handler's; bytes may be JSON, so nothing is refused."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("own", 1)
    app = lab.app(None)
    app.add_hook(events)
    app.handler("t", to=["own", "out"], workers=workers)(bytes_by_send)
    app.handler("u", to="out", workers=workers)(json_of_any)
    app.start()
    lab.produce("a b")
    lab.produce("a b", topic="u")
    wait_for(lambda: app.snapshot().finished_records == 4 and not app.snapshot().unacknowledged_outputs)
    wait_for(lambda: events.of(OutputKindsDiffer))
    (found,) = events.of(OutputKindsDiffer)
    assert found.to == "out"
    assert {(found.handler, found.kind), (found.other_handler, found.other_kind)} == {
        ("bytes_by_send", "bytes"),
        ("json_of_any", "JSON"),
    }
    app.stop()
