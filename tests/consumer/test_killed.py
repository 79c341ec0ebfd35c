"""The loss that a bare asynchronous commit causes, and its end with the import changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ehkafka.testing import EmbeddedBroker
from tests.kit.waiting import wait_until

PROGRAM = Path(__file__).with_name("killed.py")
RECORDS = 20_000
# Whether the next batch is committed depends on when librdkafka comes to it; the first loss is enough.
TRIES = 30
LIMIT_S = 20.0


def test_confluent_kafka_loses_what_was_not_handled() -> None:
    """After a kill, the group's commit is past records that were only about to be handled."""
    with EmbeddedBroker({"t": 1}) as broker:
        broker.produce("t", [(None, b"v")] * RECORDS)
        assert any(_lost(broker, "confluent_kafka", f"group-{number}") for number in range(TRIES))


def test_the_drop_in_loses_nothing() -> None:
    """The same program, one import changed: the commit is what was handled."""
    with EmbeddedBroker({"t": 1}) as broker:
        broker.produce("t", [(None, b"v")] * RECORDS)
        assert [_lost(broker, "ehkafka", f"group-{number}") for number in range(3)] == [0, 0, 0]


def _lost(broker: EmbeddedBroker, module: str, group: str) -> int:
    """Run it, kill it, and return how many records the group will never see again unhandled."""
    command = [sys.executable, str(PROGRAM), module, broker.bootstrap, "t", group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            assert program.stdout is not None
            handled = int(program.stdout.readline())
            wait_until(lambda: (broker.committed(group, "t")[0] or 0) >= handled, "the commit", LIMIT_S)
        finally:
            program.kill()
    return (broker.committed(group, "t")[0] or 0) - handled
