"""How many starts of a query come up beside four busy loops: with `ehkafka.spark.start` all of them.

`EHKAFKA_BUSY_STARTS=20 pytest -n 0 tests/spark/source/test_busy_starts.py` prints it, as a long run does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EngineError
from ehkafka.spark import start
from tests.kit.busy_loops import busy_loops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.readwriter import DataStreamWriter

LOOPS = 4
STARTS = int(os.environ.get("EHKAFKA_BUSY_STARTS", "20" if os.environ.get("EHKAFKA_LONG") == "1" else "0"))
# Spark gives up a start after ten seconds, and there are up to six in each of ours.
SECONDS_MAX = 60 + 150 * STARTS


@pytest.mark.skipif(not STARTS, reason="a longer mode: EHKAFKA_BUSY_STARTS=20")
@pytest.mark.timeout(SECONDS_MAX)
def test_each_query_comes_up_beside_busy_loops(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of those that are started by `writer.start()` alone the number is printed."""
    broker.produce("readings", [(b"k", b"v")] * 10)

    def comes_up(begin: Callable[[Any], StreamingQuery], number: int) -> bool:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings"}
        rows = spark.readStream.format("ehkafka").options(**options, startingOffsets="earliest").load()
        writer = rows.writeStream.format("noop")
        try:
            query = begin(writer.option("checkpointLocation", str(tmp_path / f"{begin.__module__}-{number}")))
            query.processAllAvailable()
        except (EngineError, StreamingQueryException):
            return False
        query.stop()
        return True

    with busy_loops(LOOPS, SECONDS_MAX):
        plain, ours = (
            sum(comes_up(begin, number) for number in range(STARTS))
            for begin in (DataStreamWriter.start, start)
        )
    with capsys.disabled():
        print(  # noqa: T201 - what a long run is for
            f"\nOf {STARTS} queries each beside {LOOPS} busy loops came up: {plain} by writer.start(), "
            f"{ours} by ehkafka.spark.start(writer)."
        )
    assert ours == STARTS
