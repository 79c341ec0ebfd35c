"""What cannot be sent soundly is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing import ApiKey


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
