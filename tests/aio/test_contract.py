"""Every call does the same in both classes: results, errors, callbacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from typing import Any

CALLS = Path(__file__).with_name("calls.py")
RUN_S = 60.0


def test_calls_on_the_embedded_broker(properties: dict[str, Any]) -> None:
    """Line by line, each class on a broker of its own."""
    theirs, ours = (_lines(module, properties) for module in ("confluent_kafka", "ehkafka"))
    assert theirs[-1] == "the end: ''"
    assert ours == theirs


def _lines(module: str, properties: dict[str, Any]) -> list[str]:
    given = {
        name: value for name, value in properties.items() if name not in {"group.id", "bootstrap.servers"}
    }
    with EmbeddedBroker({"t": 1}) as broker:
        broker.produce("t", [(f"key-{number}", b"v") for number in range(100)])
        command = [sys.executable, str(CALLS), module, broker.bootstrap, json.dumps(given)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return run.stdout.splitlines()
