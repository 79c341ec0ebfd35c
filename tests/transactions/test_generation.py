"""Group metadata: who is a member, as librdkafka writes it."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from ehkafka.testing import EmbeddedBroker
from ehkafka.transactions.committing import is_member, metadata_of_no_member
from tests.kit.waiting import wait_until


def test_a_member_is_distinguished_from_who_is_none() -> None:
    """What the client library says before it has joined, byte by byte, and after."""
    with EmbeddedBroker({"t": 1}) as broker:
        properties = {"group.id": "grüppe", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({**broker.consumer_properties, **properties})
        try:
            assert metadata_of_no_member("grüppe") == consumer.consumer_group_metadata()
            consumer.subscribe(["t"])

            def has_joined() -> Any:
                consumer.poll(0.05)
                return consumer.assignment()

            wait_until(has_joined)
            assert is_member(consumer.consumer_group_metadata())
        finally:
            consumer.close()


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        b"",
        b"CGMDv2:",
        b"CGMDv2:\1\0\0",
        b"CGMDv3:\1\0\0\0group\0member\0\1",
        b"CGMDv2:\1\0\0\0group",
        b"CGMDv2:\1\0\0\0group\0\0\1",
        metadata_of_no_member("group"),
        b"CGMDv2:\xff\xff\xff\xffgroup\0member\0\1",
    ],
)
def test_whatever_else_it_is_it_is_no_member(metadata: bytes | None) -> None:
    """Then nothing is committed, which a later call repairs."""
    assert not is_member(metadata)
