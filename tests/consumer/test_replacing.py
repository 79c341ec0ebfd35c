"""Programs put the drop-in into confluent-kafka's place, and our own clients stay what they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

REPLACING = Path(__file__).with_name("replacing.py")


@pytest.mark.parametrize("when", ["late", "early"])
def test_confluents_names_may_be_replaced_by_ours(broker: EmbeddedBroker, when: str) -> None:
    """`confluent_kafka.Consumer = ehkafka.Consumer` works, whenever said and whatever else is replaced."""
    broker.create_topic("t.dead", 1)
    command = [sys.executable, str(REPLACING), broker.bootstrap, "t", when]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100.0, check=False)
    seen = ["Consumer 10", "DeserializingConsumer 10", "App 100", "replaced ones made by us: []"]
    assert run.stdout.splitlines() == [*seen, "threads left: []"], run.stderr
