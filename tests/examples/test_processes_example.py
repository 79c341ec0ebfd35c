"""The example of processes finds each home's rhythm in more than one process and skips what is no day."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable

PERIODS = {f"home-{number}": 20 + 5 * number for number in range(8)}


def day(period: int) -> bytes:
    """Return a day of a heating that cycles, on a day that is warmer at noon."""
    minutes = range(1440)
    warm = [20 + math.sin(math.pi * m / 1440) + 0.7 * math.sin(2 * math.pi * m / period) for m in minutes]
    return json.dumps([round(temperature, 2) for temperature in warm]).encode()


def test_the_processes_example_finds_each_homes_rhythm(start_example: Callable[..., Any]) -> None:
    """Eight homes and one broken record: eight lines from two processes, all committed."""
    days = [(home, day(period)) for home, period in PERIODS.items()]
    with EmbeddedBroker({"days": 2}) as broker:
        broker.produce("days", [("home-x", b"[broken"), *days])
        example = start_example("examples/processes/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap)
        example.wait_until(lambda log: log.count("cycles every") == 8 and "Skipped days" in log)
        log = example.stop()
        assert sum(broker.committed("heating", "days").values()) == 9
    found = re.findall(r"(home-\d): the heating cycles every (\d+) min \(process (\d+)\)", log)
    assert len({process for _, _, process in found}) == 2
    for home, minutes, _ in found:
        assert abs(int(minutes) - PERIODS[home]) <= 1, home
