"""A query's numbers for Prometheus and OpenTelemetry, without a JVM: the query is a plain object."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import ConfigurationError
from ehkafka.metrics import Collector, exposition
from ehkafka.spark import observe, observing
from ehkafka.testing import EmbeddedBroker


@pytest.fixture
def query() -> SimpleNamespace:
    """Return a query that has finished a batch, as far as it is asked."""
    progress = {
        "sources": [
            {
                "startOffset": '{"readings": {"0": 2}}',
                "endOffset": '{"readings": {"0": 5}}',
                "latestOffset": '{"readings": {"0": 9}}',
                "numInputRows": 3,
            }
        ],
        "durationMs": {"triggerExecution": 1500},
    }
    return SimpleNamespace(name=None, id="0b2c", isActive=True, lastProgress=progress)


def _series(observed: Any) -> dict[str, str]:
    """Return the series that are shown, by name and labels."""
    text = exposition(Collector(observed))[0].decode()
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def test_prometheus_shows_a_query(query: SimpleNamespace) -> None:
    """Lag, position and batch time under the query's name, its id without one; the group has no commit."""
    shown = _series(observe(query))
    partition = '{group="0b2c",partition="0",topic="readings"}'
    assert shown[f"ehkafka_lag_records{partition}"] == "4.0"
    assert shown[f"ehkafka_watermark_next_offset{partition}"] == "5.0"
    assert f"ehkafka_committed_next_offset{partition}" not in shown
    assert shown['ehkafka_batch_seconds{group="0b2c"}'] == "1.5"
    assert shown['ehkafka_received_records_total{group="0b2c"}'] == "3.0"
    assert shown['ehkafka_running{group="0b2c"}'] == "1.0"


def test_with_the_streams_options_the_lag_is_that_of_now(query: SimpleNamespace) -> None:
    """Also of a query that has ended. A broker that is gone makes the lag unknown, and no error."""
    with EmbeddedBroker({"readings": 1}) as broker:
        broker.produce("readings", [(b"k", b"v")] * 12, partition=0)
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings"}
        observed = observe(query, {**options, "kafkaConsumer.pollTimeoutMs": "1000"})
        assert observed.snapshot().lag_records == 7
        query.isActive = False
        assert (observed.snapshot().state, observed.snapshot().lag_records) == ("stopped", 7)
        observed.close()
    assert observed.snapshot().lag_records is None
    observed.close()


def test_a_silent_broker_keeps_metrics_no_longer_than_is_said(
    query: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads them gives up after ten seconds, and would have none at all."""
    monkeypatch.setattr(observing, "ASK_S", 2.0)
    with EmbeddedBroker({"readings": 1}) as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings"}
        observed = observe(query, options)
        assert observed.snapshot().lag_records == 0
        broker.delay_next(ApiKey.LIST_OFFSETS, 20.0, times=3)
        began_s = time.monotonic()
        assert observed.snapshot().lag_records is None
        assert time.monotonic() - began_s < 3.5
        observed.close()


@pytest.mark.parametrize("ends", ["by itself", "with its session"])
def test_a_query_that_has_ended_shows_no_old_lag(query: SimpleNamespace, ends: str) -> None:
    """What was reported when its last batch was planned is none of now. Positions and counts stay."""
    query.name = "copies"
    observed = observe(query)
    assert observed.snapshot().lag_records == 4
    if ends == "by itself":
        query.isActive = False
    else:
        del query.isActive  # as Java's error or Connect's
    found = observed.snapshot()
    assert (found.group, found.state, found.lag_records, found.finished_records) == (
        "copies",
        "stopped",
        None,
        3,
    )


def test_wrong_options_are_refused_at_once(query: SimpleNamespace) -> None:
    """Not by the first one who reads metrics."""
    with pytest.raises(ConfigurationError, match="subscrib"):
        observe(query, {"subscrib": "readings", "bootstrap": "127.0.0.1:9"})
