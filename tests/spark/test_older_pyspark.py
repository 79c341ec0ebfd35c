"""Other releases of PySpark, each in an environment of its own, under the Python of the platform that has it.

A full run has that of Fabric's Runtime 2.0. A long one (`EHKAFKA_LONG=1`) has all of `OF_LONG_RUN`, with the
tests of kills, hand-over and home security. `EHKAFKA_OLDER_PYSPARK=3.5,4.0` names others, `4.0` for its
newest patch. `tests.kit.spark_versions` installs each once, which takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EhkafkaError
from ehkafka.testing import EmbeddedBroker
from tests.kit.brokers import skip_or_fail
from tests.kit.spark_versions import CHECKOUT, INSTALL_S, spark_version

if TYPE_CHECKING:
    from tests.kit.azurite import Azurite
    from tests.kit.spark_versions import SparkVersion

PROGRAM = Path(__file__).with_name("older_program.py")
CONNECT_PROGRAM = Path(__file__).with_name("connect_program.py")
OF_FABRIC = "4.1.1" if os.environ.get("EHKAFKA_REQUIRE_BROKER") == "1" else ""
OF_LONG_RUN = "4.0.5,4.1.1,4.1.4,4.2.1,4.3.0"
IS_LONG = os.environ.get("EHKAFKA_LONG") == "1" or "EHKAFKA_OLDER_PYSPARK" in os.environ
RELEASES = os.environ.get("EHKAFKA_OLDER_PYSPARK", OF_LONG_RUN if IS_LONG else OF_FABRIC).split(",")
RUN_S, TESTS_S = 600.0, 1_800.0
# PySpark 4.1 under Python 3.13 leaves sockets to Java for the garbage collector, which says so.
UNCLOSED = "default::pytest.PytestUnraisableExceptionWarning"


@pytest.fixture(scope="module", params=RELEASES, ids=str)
def version(
    request: pytest.FixtureRequest,
    spark_environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> SparkVersion:
    """Return an environment with that PySpark and this checkout."""
    if not request.param:
        pytest.skip("a longer mode: EHKAFKA_OLDER_PYSPARK=4.0,4.1")
    try:
        return spark_version(request.param, tmp_path_factory.mktemp("older"))
    except EhkafkaError as error:
        skip_or_fail(error, f"PySpark {request.param}")


@pytest.mark.timeout(INSTALL_S + RUN_S)
def test_an_older_pyspark_does_what_it_can_and_hears_of_the_rest(
    version: SparkVersion, azurite: Azurite, tmp_path: Path
) -> None:
    """Below 4.0 one error; from 4.0 on source, restart, engine and sink."""
    name = f"c{uuid.uuid4().hex[:12]}"
    azurite.create_container(name)
    secret = tmp_path / "storage-connection"
    secret.write_text(azurite.connection_string())
    container = {"container": name, "connectionStringFile": str(secret)}
    found = _run(version, PROGRAM, tmp_path, json.dumps(container))
    release = tuple(map(int, found["version"].split(".")[:2]))
    if release < (4, 0):
        for refused in (found["engine"], found["formats"]):
            assert refused.startswith("ConfigurationError")
        assert "kafka_options" in found["formats"]
        return
    _check_source(found)
    for lag in found["lags"]:
        assert lag["asked"] == 0
        assert lag["refused"] == ""
    _check_available_now(found["now"])
    with azurite.service_client() as service:
        client = service.get_container_client(name)
        blobs = [blob for blob in client.list_blob_names() if blob.endswith(".jsonl")]
        rows = [
            json.loads(line) for blob in blobs for line in client.download_blob(blob).readall().splitlines()
        ]
    assert found["sink"] == ""
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == 57
    assert found["engine"] == ""
    assert found["handled"] == 50


@pytest.mark.timeout(INSTALL_S + RUN_S)
def test_a_client_of_spark_connect_reads_and_writes(version: SparkVersion, tmp_path: Path) -> None:
    """The formats are looked up by the server; `start`, `lag` and `observe` need nothing but the query."""
    found = _run(version, CONNECT_PROGRAM, tmp_path, SPARK_TESTING="1")  # the server's port is a free one
    assert found["batch"] == 50
    assert found["now"] == {"rows": 50, "lag": 0, "shown": [0, 0], "has batch time": True}
    assert found["written"] == sorted([str(number), str(number * number)] for number in range(30))
    assert "Did you mean 'readings'?" in found["wrong topic"]
    assert found["wrong topic"].startswith("TopicNotFoundError: ")
    assert "did you mean startingOffsets?" in found["wrong option"]
    assert "value" in found["no value"]
    assert found["speculation"].startswith("ConfigurationError: spark.speculation=true")
    for shown in ("wrong topic", "wrong option", "no value"):
        assert len(found[shown].splitlines()) <= 2, found[shown]


@pytest.mark.skipif(not IS_LONG, reason="a longer mode: EHKAFKA_OLDER_PYSPARK=4.0,4.1")
@pytest.mark.timeout(INSTALL_S + TESTS_S)
@pytest.mark.parametrize(
    "tests",
    [
        pytest.param("spark/engine/test_row_28.py", id="kills"),
        pytest.param("spark/engine/test_real_hand_over.py", id="hand-over"),
        pytest.param("spark/test_home_security_spark.py", id="home security"),
    ],
)
def test_what_the_app_promises_holds_there(version: SparkVersion, tests: str) -> None:
    """By the very tests that hold it here, each as long as in a quick run; none is skipped."""
    environ = {name: value for name, value in version.environment().items() if not name.startswith("PYTEST_")}
    environ |= {"EHKAFKA_LONG": "", "EHKAFKA_FAULTS_FILE": "", "EHKAFKA_REQUIRE_BROKER": "1"}
    command = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-W", UNCLOSED, f"tests/{tests}"]
    done = subprocess.run(
        [version.python, *command],
        cwd=CHECKOUT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TESTS_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert "skipped" not in done.stdout


def _run(version: SparkVersion, program: Path, folder: Path, *more: str, **variables: str) -> dict[str, Any]:
    with EmbeddedBroker({"readings": 2, "squares": 2}) as broker:
        for partition in range(2):
            broker.produce("readings", [(b"k", b"v")] * 25, partition=partition)
        done = subprocess.run(
            [version.python, program, broker.bootstrap, str(folder / "checkpoint"), *more],
            env=version.environment() | variables,
            cwd=folder,  # elsewhere than the checkout, which Spark's processes would import from
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _check_source(found: dict[str, Any]) -> None:
    """Self-registration, batches of the limit, a restart that goes on, and `spark.read`."""
    first, second = found["runs"]
    assert [len(batch) for batch in first if batch] == [20, 20, 10]
    expected = [(number, offset) for number in range(2) for offset in range(25)]
    assert sorted(tuple(row) for batch in first for row in batch) == expected
    assert [row for batch in second for row in batch] == [[0, offset] for offset in range(25, 32)]
    assert found["batch"] == 57
    [is_read] = found["read"]
    assert [name for name in is_read if is_read[name]] == ["value"]


def _check_available_now(found: dict[str, Any]) -> None:
    """All there is, by batches of the limit, and one sentence about a topic that is not there."""
    assert found["refused"] == ""
    assert (sum(found["counts"]), max(found["counts"])) == (57, 20)
    assert found["wrong topic"].startswith("TopicNotFoundError: ")
    assert "Did you mean 'readings'?" in found["wrong topic"]
    assert "\n" not in found["wrong topic"]
