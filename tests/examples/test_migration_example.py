"""examples/migration runs as its README says, against Blob Storage on this machine."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker
from tests.kit.running import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.azurite import Azurite

ROOT = Path(__file__).parents[2]
# A line of the app's handler; the log around it names the partitions as well.
HANDLED = re.compile(r"alarms: alarms\[(\d)\]@(\d+) alarm")


def run(environment: dict[str, str], *arguments: str) -> str:
    """Run a command or script to its good end; return its output."""
    done = ended(sys.executable, *arguments, cwd=ROOT, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.broker
def test_the_migration_goes_on_at_the_next_sequence_number(
    azurite: Azurite, start_example: Callable[..., Any]
) -> None:
    """The old checkpoints, a preview that moves nothing, the import, and the app's first records."""
    azurite.create_container("checkpoints")
    readme = (ROOT / "examples/migration/README.md").read_text()
    with EmbeddedBroker({"alarms": 3}) as broker:
        for partition in range(3):
            records = [(f"home-{number}", f"alarm {number}") for number in range(10)]
            broker.produce("alarms", records, partition=partition)
        storage = {"AZURE_STORAGE_CONN_STR": azurite.connection_string()}
        written = run(storage, "examples/migration/old_checkpoints.py", "0=6", "1=3")
        assert "partition 0: done up to sequence number 6" in written
        variables = {
            "EHKAFKA_BOOTSTRAP": broker.bootstrap,
            "EHKAFKA_MIRROR_CONNECTION_STRING": azurite.connection_string(),
        }
        command = ["-m", "ehkafka.cli", "offsets", "import", "alarms", "--group", "alarms"]
        preview = run(variables, *command, "--from", "checkpoints")
        rows = [line.strip() for line in preview.splitlines() if re.match(r" *[0-2] ", line)]
        for row in rows:
            assert row in readme, "the README shows another preview"
        assert "Nothing was moved. Add --yes to do it." in preview
        run(variables, *command, "--from", "checkpoints", "--yes", "--watch-for", "0")
        example = start_example("examples/migration/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap)
        example.wait_until(lambda text: len(HANDLED.findall(text)) >= 3 + 6 + 10)
        log = example.stop()
    offsets: dict[str, list[int]] = {}
    for partition, offset in HANDLED.findall(log):
        offsets.setdefault(partition, []).append(int(offset))
    assert {partition: sorted(seen) for partition, seen in offsets.items()} == {
        "0": [7, 8, 9],
        "1": list(range(4, 10)),
        "2": list(range(10)),
    }
