"""What a producer of outputs is set to, whatever the app asks for."""

from __future__ import annotations

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.outputs.properties import output_properties
from ehkafka.settings import Settings

ENDPOINT = ehkafka.Endpoint.kafka("127.0.0.1:9")


def settings(**producer: object) -> Settings:
    """Return an app's settings with properties for its producers."""
    return Settings(group="g", start="earliest", producer=producer)  # type: ignore[arg-type]


def test_an_output_is_given_up_for_no_reason_that_is_not_reported() -> None:
    """A tick takes an empty queue for an acknowledgement, so nothing may leave it without one or an error."""
    found = output_properties(ENDPOINT, settings(**{"message.timeout.ms": 1_000}))
    assert found["message.timeout.ms"] == 0
    assert found["enable.gapless.guarantee"] is True
    assert found["enable.idempotence"] is True
    with pytest.raises(ConfigurationError, match=r"enable\.gapless\.guarantee.*Leave it out"):
        output_properties(ENDPOINT, settings(**{"enable.gapless.guarantee": False}))
