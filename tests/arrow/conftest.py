"""An embedded broker with a topic of two partitions, and what reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyarrow")

import ehkafka.arrow
from ehkafka.ranges import log_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.arrow import Reader


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    """Return an embedded broker: 30 records in the first partition of `readings`, 20 in its second."""
    # It names no ids, for which each reader would wait.
    monkeypatch.setattr(log_ids, "FIRST_S", 0.05)
    with EmbeddedBroker({"readings": 2}) as embedded:
        for partition, count in enumerate([30, 20]):
            pairs = [(b"k%d" % number, b"v%d" % number) for number in range(count)]
            embedded.produce("readings", pairs, partition=partition)
        yield embedded


@pytest.fixture
def read(broker: EmbeddedBroker) -> Callable[..., Reader]:
    """Return what reads the topic."""
    endpoint = ehkafka.Endpoint.kafka(broker.bootstrap)

    def make(topic: str = "readings", **given: Any) -> Reader:
        return ehkafka.arrow.read(endpoint, topic, **given)

    return make


def offsets(reader: Any) -> dict[int, list[int]]:
    """Return the offsets of each partition in the order of the rows."""
    found: dict[int, list[int]] = {}
    for batch in reader:
        rows = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
        for partition, offset in rows:
            found.setdefault(partition, []).append(offset)
    return found
