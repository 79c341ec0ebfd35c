"""The batch example stores what it reads and sends what it cannot read to the dead letters."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_batches_example_stores_readings_many_at_once(
    start_example: Callable[..., Any], tmp_path: Path
) -> None:
    """1000 readings and two broken ones: 1000 rows, two dead letters, everything committed."""
    database = tmp_path / "readings.db"
    readings = [
        (f"home-{n % 50}", b'{"home": "home-%d", "temperature": 21.5}' % (n % 50)) for n in range(1000)
    ]
    readings[300:300] = [("home-3", b"{broken"), ("home-4", b'{"home": "home-4"}')]
    with EmbeddedBroker({"readings": 4, "readings.dead": 1}) as broker:
        broker.produce("readings", readings)
        example = start_example(
            "examples/batches/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap, READINGS_DB=str(database)
        )
        example.wait_until(lambda log: rows(database) == 1000 and log.count("readings.dead") >= 2)
        example.stop()
        assert sum(broker.committed("store", "readings").values()) == 1002


def rows(database: Path) -> int:
    """How many readings are stored by now."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            return int(connection.execute("select count(*) from readings").fetchone()[0])
    except sqlite3.OperationalError:  # not there yet, or locked by a batch
        time.sleep(0.05)
        return 0
