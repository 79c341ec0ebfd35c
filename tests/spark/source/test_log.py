"""The way of a query's planning process to its broker."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checks.inspection import Inspection
from ehkafka.errors import EndpointError
from ehkafka.spark.source import log as module
from ehkafka.spark.source.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.spark.source.options import SourceOptions


def test_a_refused_connection_ends_the_start_before_its_time_is_over(
    options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what librdkafka says of it."""
    monkeypatch.setattr(module, "REFUSED_S", 0.1)
    monkeypatch.setattr(module, "TIMEOUT_S", 2.0)
    monkeypatch.setattr(Inspection, "is_over", False)
    with (
        Log(options(**{"kafka.bootstrap.servers": "127.0.0.1:1"})) as log,
        pytest.raises(EndpointError, match="Connection refused"),
    ):
        log.partitions()


def test_a_broker_that_restarts_may_refuse_for_longer(
    options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the run's first opening is in a hurry: a running query waits for the broker."""
    waits_s = []
    reach = module.reach_topic

    def noted(*given: Any, refused_s: float) -> object:
        waits_s.append(refused_s)
        return reach(*given, refused_s=refused_s)

    monkeypatch.setattr(module, "reach_topic", noted)
    with Log(options()) as log:
        log.partitions()
        log.close()
        log.partitions_now()
    assert waits_s == [module.REFUSED_S, inf]
