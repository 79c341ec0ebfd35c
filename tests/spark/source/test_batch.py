"""`spark.read.format("ehkafka")` on a real session."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.timeout(600)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from ehkafka.testing import EmbeddedBroker


@pytest.fixture
def load(spark: SparkSession, broker: EmbeddedBroker) -> Callable[..., DataFrame]:
    """Return what loads the topic; 20 records are in its first partition, 30 in its second."""
    for partition, count in enumerate([20, 30]):
        broker.produce("readings", [(b"k%d" % number, b"v") for number in range(count)], partition=partition)

    def read(**given: str) -> DataFrame:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "readings", **given}
        return spark.read.format("ehkafka").options(**options).load()

    return read


def test_the_schema_is_the_jvm_connectors(load: Callable[..., DataFrame]) -> None:
    """`format("kafka")` and ours are interchangeable: same names, order, types and nullability."""
    assert load(includeHeaders="true").schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert all(field.nullable for field in load(includeHeaders="true").schema)


def test_a_batch_is_everything_between_two_places(load: Callable[..., DataFrame]) -> None:
    """Earliest to latest by default, else by offsets; with and without cutting, in as many tasks as asked."""
    everything = load()
    assert everything.count() == 50
    assert everything.rdd.getNumPartitions() == 2
    some = load(
        startingOffsets='{"readings": {"0": 5, "1": -2}}',
        endingOffsets='{"readings": {"0": -1, "1": 10}}',
        tasks="1",
        columns="partition,offset,key,topic",
    )
    assert some.rdd.getNumPartitions() == 1
    rows = [tuple(row) for row in some.collect()]
    assert [row for row in rows if row[0] == 0] == [
        (0, number, b"k%d" % number, "readings") for number in range(5, 20)
    ]
    assert [row[1] for row in rows if row[0] == 1] == list(range(10))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"maxOffsetsPerTrigger": "5"}, "works only with spark.readStream"),
        ({"subscribe": "none"}, "no such topic"),
    ],
)
def test_what_is_wrong_is_reported_on_the_driver(
    load: Callable[..., DataFrame], given: dict[str, str], text: str
) -> None:
    """One error that names the option, before a task runs."""
    with pytest.raises(AnalysisException, match=text):
        load(**given).collect()


def test_a_limit_leaves_the_next_task_in_peace(load: Callable[..., DataFrame]) -> None:
    """`LIMIT` gives a task up in the middle; the next query on the same worker reads all."""
    assert len(load().limit(3).collect()) == 3
    assert load().count() == 50


FACTORY = """
import os, signal
from pathlib import Path
import ehkafka
from pyspark import TaskContext

def make():
    died = Path({marker!r})
    if TaskContext.get() is not None and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return ehkafka.Endpoint.kafka({bootstrap!r})
"""


def test_a_task_whose_worker_dies_is_tried_again(
    spark: SparkSession, broker: EmbeddedBroker, load: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """Trap: `local[2]` retries no task, `local[2,4]` does; a new worker makes its own way to the broker."""
    assert spark.sparkContext.master == "local[2,4]"
    module = f"dying_factory_{uuid.uuid4().hex[:8]}"
    marker = str(tmp_path / "died")
    code = FACTORY.format(marker=marker, bootstrap=broker.bootstrap)
    (tmp_path / f"{module}.py").write_text(code)
    spark.sparkContext.addPyFile(str(tmp_path / f"{module}.py"))
    here = {"endpointFactory": f"{module}:make", "subscribe": "readings"}
    assert spark.read.format("ehkafka").options(**here).load().count() == 50
    assert (tmp_path / "died").exists()
