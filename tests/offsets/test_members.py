"""Asking who is in a group ends no process, also where the broker does not know the request."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing import EmbeddedBroker

# Each time another client: where librdkafka ends the process for such brokers, that is a race.
ASKING = """
import sys
import ehkafka
from ehkafka.checks.target import Target
from ehkafka.offsets.members import members_of, similar_groups

target = Target(endpoint=ehkafka.Endpoint.kafka(sys.argv[1]))
for _ in range(20):
    assert members_of(target, "orders", "t", 10.0) is None
assert similar_groups(target, "orders", 10.0) == []
print("alive")
"""


def test_a_broker_without_describe_groups_says_nothing_and_the_process_lives(
    embedded_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    """In a process of its own: an assertion of librdkafka's would end this one."""
    broker = embedded_broker_factory({"t": 1})
    command = [sys.executable, "-c", ASKING, broker.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (0, "alive\n"), f"FACT: {ended.stderr[-500:]}"
