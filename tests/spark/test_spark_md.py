"""The page on Spark: its code runs as it stands there, and its tables name the options that there are."""

from __future__ import annotations

import re
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
import ehkafka.spark
from ehkafka.run.spark_options import SparkOptions
from ehkafka.settings.option import options_of
from ehkafka.spark.sink import options as sink_options
from ehkafka.spark.sink.place import PLACE_OPTIONS
from ehkafka.spark.source import options as source_options
from ehkafka.spark.writer import options as writer_options
from ehkafka.testing import EmbeddedBroker
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.kit.azurite import Azurite

PAGE = (Path(__file__).parents[2] / "docs" / "spark" / "index.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
READ, SEND, RUN, WRITE = CODE
NAMESPACE = "Endpoint=sb://homes.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=a2V5"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker with a topic of 100 records."""
    with EmbeddedBroker({"readings": 2}) as broker:
        broker.produce("readings", [(f"home-{number % 7}", b"{}") for number in range(100)])
        yield broker


def test_reading_a_topic_is_as_short_as_shown(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame has the columns that were chosen; nothing is asked of the namespace before the query."""
    monkeypatch.setenv("HOME_EVENT_HUBS", NAMESPACE)
    names = executed(READ)
    assert names["readings"].columns == ["key", "value", "timestamp"]
    assert names["spark"].sparkContext is spark.sparkContext


def test_a_topic_is_written_by_the_lines_shown(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    """As shown, but for where the broker is."""
    broker.create_topic("alerts")
    options = {"subscribe": "readings", "startingOffsets": "earliest"}
    at = {"kafka.bootstrap.servers": broker.bootstrap}
    alerts = spark.readStream.format("ehkafka").options(**options, **at).load()
    instead = {
        '"connectionStringEnv", "HOME_EVENT_HUBS"': f'"kafka.bootstrap.servers", "{broker.bootstrap}"',
        "/mnt/checkpoints": str(tmp_path),
    }
    query = executed(SEND, {"alerts": alerts.selectExpr("value")}, instead=instead)["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert len(read_all(broker.bootstrap, "alerts")) == 100


def test_an_app_runs_by_the_lines_shown(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> None:
    """`run.wait()` returns when the run is stopped; the group stands at the end."""
    app = ehkafka.App(group="orders", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")

    @app.handler("readings")
    def handle(record: ehkafka.Record) -> None:
        record.key()

    names: dict[str, Any] = {"app": app, "spark": spark}
    waits = threading.Event()

    def stop_at_the_end() -> None:
        while not waits.wait(0.2):
            run = names.get("run")
            if run is not None and run.counts["finished"] == 100:
                run.request_stop()
                return

    stopping = threading.Thread(target=stop_at_the_end)
    stopping.start()
    try:
        executed(RUN, names, instead={"/mnt/checkpoints": str(tmp_path)})
    finally:
        waits.set()
        stopping.join()
    assert sum(broker.committed("orders", "readings").values()) == 100
    assert (tmp_path / "orders").is_dir()


def test_a_stream_is_written_by_the_lines_shown(
    spark: SparkSession, broker: EmbeddedBroker, azurite: Azurite, tmp_path: Path
) -> None:
    """As shown, but for where the container is: Azurite knows no Entra ID without a certificate."""
    container = f"homes-{uuid.uuid4().hex[:12]}"  # a second go must not find what the first one wrote
    azurite.create_container(container)
    secret = tmp_path / "storage"
    secret.write_text(azurite.connection_string())
    counts = (
        spark.readStream.format("ehkafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("subscribe", "readings")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("partition", "offset")
    )
    ours = f'.option("connectionStringFile", "{secret}").option("container", "{container}")'
    [line] = re.findall(r"\.option\(\"containerUrl\".*\n", WRITE)
    names = executed(
        WRITE, {"counts": counts}, instead={line: ours + "\n", "/mnt/checkpoints": str(tmp_path)}
    )
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    with azurite.service_client() as service:
        written = [*service.get_container_client(container).list_blob_names()]
    assert any(re.fullmatch(r"minutes/batch=.*/_manifest\.json", name) for name in written), written
    assert any(name.endswith(".parquet") for name in written), written


def test_each_option_is_on_the_page() -> None:
    """Every option stands in the guide."""
    hidden = {"bootstrap"}  # its public name is kafka.bootstrap.servers
    names = {
        *source_options._OPTIONS,
        *writer_options._OPTIONS,
        *sink_options._OWN_OPTIONS,
        *PLACE_OPTIONS,
    } - hidden
    assert [name for name in sorted(names) if not re.search(rf'[`"]{re.escape(name)}[`="]', PAGE)] == []


def test_each_option_of_the_page_is_there() -> None:
    """What the tables show is taken."""
    tables = reported_in_tables("Read a topic", "Write to a topic", "Secrets")
    shown = {name for name in tables if not name.startswith("kafka.")}
    assert {"subscribe", "deliveryTimeoutMs", "namespace"} <= shown
    assert shown - {*source_options._OPTIONS, *writer_options._OPTIONS, *PLACE_OPTIONS} == set()


def test_what_the_page_calls_is_there() -> None:
    """Each name after `ehkafka.spark.` and each argument of `run_on_spark` in the table."""
    names, arguments = re.findall(r"ehkafka\.spark\.(\w+)", PAGE), reported_in_tables("Run an app")
    assert "lag" in names
    assert [name for name in names if not hasattr(ehkafka.spark, name)] == []
    assert "checkpoint" in arguments
    of_command = {"folders"}
    assert arguments == {one.name for one in options_of(SparkOptions)} - of_command


def executed(code: str, names: dict[str, Any] | None = None, *, instead: dict[str, str] | None = None) -> Any:
    """Run a block of the page in these names, some of its texts replaced; return the names afterwards."""
    names = {} if names is None else names
    for text, other in (instead or {}).items():
        assert text in code, f"{text} is not in the block any more"
        code = code.replace(text, other)
    exec(compile(code, "spark.md", "exec"), names)
    return names


def reported_in_tables(*sections: str) -> set[str]:
    """Return the names in code type in the first columns of these sections' tables."""
    cells = []
    for section in sections:
        text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
        cells += re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
