"""The home-security pipeline over a store that has forgotten blobs: their readings are counted again."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import chain, layout
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.readings import TOPIC, Reading
from home_pipeline.rules import Windows

import ehkafka
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azure.storage.blob import ContainerClient

    from tests.kit.azurite import Azurite

BEGIN_US = 1_790_000_000_000_000


@pytest.fixture
def container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[ContainerClient]:
    """Return an empty container."""
    monkeypatch.setenv(STORAGE, azurite.connection_string())
    monkeypatch.setenv(CONTAINER, f"store-{secrets.token_hex(6)}")
    with open_container() as opened:
        create_container(opened)
        yield opened


@pytest.fixture
def endpoint() -> Iterator[ehkafka.Endpoint]:
    """Return a broker with a topic of one partition and 30 records."""
    with EmbeddedBroker({TOPIC: 1}) as broker:
        broker.produce(TOPIC, [("home-000001", b"") for _ in range(30)])
        yield ehkafka.Endpoint.kafka(broker.bootstrap)


def test_what_the_store_has_forgotten_is_read_again(
    container: ContainerClient, endpoint: ehkafka.Endpoint
) -> None:
    """A process whose group has committed more than the chain has fills the gap from the topic."""
    first = a_chain(container, endpoint)
    first.append(records(0, 10), rows_of)
    first.append(records(10, 20), rows_of)
    assert blobs(container) == [(0, 9, 10), (10, 19, 10)]
    container.delete_blob(f"local/{TOPIC}/00000/{10:020d}.jsonl")
    a_chain(container, endpoint).append(records(20, 30), rows_of)
    assert blobs(container) == [(0, 9, 10), (10, 29, 20)]


def test_a_container_that_is_another_one_begins_where_the_group_is(
    container: ContainerClient, endpoint: ehkafka.Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is missing than a store forgets in some seconds: nothing is read again."""
    monkeypatch.setattr(chain, "FORGOTTEN_MAX", 19)
    a_chain(container, endpoint).append(records(20, 30), rows_of)
    assert blobs(container) == [(20, 29, 10)]


def a_chain(container: ContainerClient, endpoint: ehkafka.Endpoint) -> chain.Chain:
    """Return the chain of the only partition, as a process finds it that has just started."""
    return chain.Chain(container, endpoint, ehkafka.TopicPartition(TOPIC, 0))


def records(begin: int, end: int) -> list[Any]:
    """Return records as an app has received them; only their offsets are asked for."""
    return [SimpleNamespace(offset=lambda offset=offset: offset) for offset in range(begin, end)]


def rows_of(found: Sequence[Any]) -> list[layout.Row]:
    """Return rows with a reading for each record."""
    at_us = [BEGIN_US + one.offset() * 1_000_000 for one in found]
    readings = [Reading("home-000001", "motion", "", one, 1.0, alarm=False) for one in at_us]
    return layout.rows_of(readings, Windows())


def blobs(container: ContainerClient) -> list[tuple[int, int, int]]:
    """Return the first and last offset of each blob, and how many readings are in it."""
    found = []
    for blob in container.list_blobs(include=["metadata"]):
        rows = layout.decode(container.download_blob(blob.name).readall(), blob.name)
        first = int(blob.name.rpartition("/")[2].removesuffix(".jsonl"))
        found.append((first, int(blob.metadata[layout.LAST_OFFSET]), sum(row.readings for row in rows)))
    return found
