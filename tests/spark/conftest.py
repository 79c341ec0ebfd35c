"""One Spark session for all tests: starting the JVM costs seconds, a query in a running one far less."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import EhkafkaError, MissingExtraError
from tests.kit.brokers import skip_or_fail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import NoReturn

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark_environment(
    no_cloud_identity: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Set, for this process and all that it starts, what PySpark needs to run on loopback; return it."""
    from ehkafka.spark.java_home import find_java_home  # noqa: PLC0415 - only for Spark's tests
    from tests.kit.spark_home import QUICK_JVM, make_spark_home  # noqa: PLC0415

    if importlib.util.find_spec("pyspark") is None:
        skip_or_fail(MissingExtraError("pyspark is not installed: pip install --group spark"), "PySpark")
    try:
        java_home = find_java_home()
    except EhkafkaError as error:
        skip_or_fail(error, "Java for Spark")
    variables = {
        "JAVA_HOME": str(java_home),
        "JDK_JAVA_OPTIONS": QUICK_JVM,  # each Java hears of it, also those of programs that tests start
        "SPARK_HOME": str(make_spark_home(tmp_path_factory.mktemp("spark"))),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp_path_factory.mktemp("spark-local")),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for name in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
            patch.delenv(name, raising=False)  # of another Spark on the machine
        # Spark starts many Python processes: without compiled modules each takes seconds.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield variables


@pytest.fixture(scope="session")
def connector_jars() -> list[Path]:
    """Return the JARs of Spark's own Kafka connector; none on a laptop that cannot download them."""
    from ehkafka.testing.kafka.jars import connector_jars as cached  # noqa: PLC0415 - only for Spark's tests

    try:
        return cached()
    except EhkafkaError as error:
        if os.environ.get("EHKAFKA_REQUIRE_BROKER") == "1":
            skip_or_fail(error, "Kafka connector of Spark")
        return []


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the session logs its events, so that tests can look for secrets in them."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark(
    spark_environment: dict[str, str],
    connector_jars: list[Path],
    spark_events: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SparkSession]:
    """Return the session, shared by all tests: two cores, tasks are tried four times, UTC, no page.

    Use query names, checkpoint directories and topics of your own, and stop what you start.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra that a laptop may lack

    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("ehkafka-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("spark-warehouse")))
        .config("spark.jars", ",".join(map(str, connector_jars)))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", f"file://{spark_events}")
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def tracebacks_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what an error of ours has hidden: each process of Spark ends with its own, and this one does not.

    A Java that begins here later would hand it on to all of Spark's Python processes.
    """
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


@pytest.fixture(autouse=True)
def no_query_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a streaming query running: it would take the next one's cores."""
    yield
    if "spark" not in request.fixturenames:
        return
    running = request.getfixturevalue("spark").streams.active
    for query in running:
        query.stop()
    assert not running, f"queries still ran after the test: {[query.name for query in running]}"


class WithoutSpark(pytest.Module):
    """A file of tests that cannot even be imported."""

    def collect(self) -> NoReturn:
        """Skip it as a whole, and say what is missing."""
        pytest.skip("no PySpark: pip install --group spark", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip Spark's tests on a laptop without PySpark; where a broker is required, let the import fail."""
    is_there = importlib.util.find_spec("pyspark") is not None
    if is_there or os.environ.get("EHKAFKA_REQUIRE_BROKER") == "1":
        return None
    return WithoutSpark.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a session as slow: it takes seconds to start, minutes where much else runs."""
    for item in items:
        if "spark_environment" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
            item.add_marker("spark")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
