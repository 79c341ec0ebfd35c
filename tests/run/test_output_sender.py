"""The sender of outputs, as an app's settings have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.run.at_least_once import output_sender
from ehkafka.run.options import AppOptions
from ehkafka.settings import Settings

if TYPE_CHECKING:
    from ehkafka.outputs.sender import OutputSender


def sender_of(producer: dict[str, Any], consumer: dict[str, Any] | None = None) -> OutputSender:
    """Return the sender of an app with these properties of its clients, not started."""
    settings = Settings(group="g", start="earliest", producer=producer, consumer=consumer or {})
    options = AppOptions(endpoint=ehkafka.Endpoint.kafka("127.0.0.1:9"), settings=settings, specs=())
    return output_sender(options, lambda _event: None, lambda _error: None)


@pytest.mark.parametrize(
    ("asked", "bytes_max"),
    [
        ({}, None),
        ({"batch.size": 4_000_000}, None),
        ({"batch.size": "16384"}, 16_384),
    ],
)
def test_a_batch_is_no_larger_than_the_requests_that_an_app_asks_for(
    asked: dict[str, Any], bytes_max: int | None
) -> None:
    """Its one report is of its last request: of an earlier one that is refused all went again, for ever."""
    assert sender_of(asked)._producer.batch_bytes == bytes_max


def test_nor_than_the_largest_message() -> None:
    """The client takes that for a request, too."""
    assert sender_of({"batch.size": 500_000}, {"message.max.bytes": 200_000})._producer.batch_bytes == 200_000
