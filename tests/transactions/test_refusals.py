"""Which refused outputs a stop waits for."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.lanes.epoch import Epoch
from ehkafka.records import TopicPartition
from ehkafka.transactions.refusals import Refusals, RefusedSource
from tests.kit.simulated.message import SimulatedMessage


@pytest.mark.parametrize(
    ("answer", "waits"), [("none yet", True), (5.0, True), (0.0, False), (None, False), (math.inf, False)]
)
def test_a_stop_waits_for_a_decision_and_for_the_next_try(answer: Any, waits: bool) -> None:
    """Not for what is not needed any more, nor for what is kept for the next start."""
    refusals, judged = Refusals(lambda: 1.0), []
    epoch = Epoch(TopicPartition("t", 0), 1, {})
    source = RefusedSource((SimulatedMessage("t", 0, 7), b"k", 1, epoch))
    origin = SimpleNamespace(judge=lambda *given: judged.append(given[-1]))
    output: Any = SimpleNamespace(source=source, origin=origin)
    output._replace = lambda **_: output
    error: Any = None
    refusals.add(output, error)
    if answer != "none yet":
        judged[0](answer)
    assert refusals.waiting_epochs() == ({epoch} if waits else set())
