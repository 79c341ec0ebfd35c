from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import uuid
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka.embedded.topics import committed, produce

if TYPE_CHECKING:
    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.azurite import Azurite

ROOT = Path(__file__).parents[2]
RECORDS = 10_000
# So far below the test's own limit that a program which hangs is reported with the cluster's logs.
SUBMIT_S = 600.0


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """Return ehkafka's wheel as the archive that `--py-files` takes: by its ending Spark knows no wheel."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    return Path(shutil.copy(wheel, tmp_path / "ehkafka.zip"))


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Return a Python that has everything of this one's packages but ehkafka.

    A line names their folder: links into it would be other places, in which each module is compiled anew. The
    links to the checkout in there are not read, and empty modules hide those by which Spark finds formats.
    """
    home = tmp_path / "python"
    venv.create(home, with_pip=False, symlinks=True)
    [packages] = home.glob("lib/python*/site-packages")
    theirs = Path(sysconfig.get_path("purelib"))
    (packages / "dependencies.pth").write_text(f"{theirs}\n")
    for module in theirs.glob("pyspark_ehkafka*.py"):
        (packages / module.name).touch()
    python = home / "bin" / "python"
    code = "import importlib.util; print(importlib.util.find_spec('ehkafka'))"
    found = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert found.stdout.strip() == "None"
    return python


@pytest.mark.broker
@pytest.mark.timeout(900)  # six Java processes: a minute where nothing else runs
def test_a_cluster_runs_the_shipped_wheel(
    spark_environment: dict[str, str],
    kafka: KafkaBroker,
    azurite: Azurite,
    shipped: Path,
    bare_python: Path,
    tmp_path: Path,
) -> None:
    """Two executors get ehkafka and the app by `--py-files`; each record is handled and written once."""
    from tests.kit.spark_cluster import SparkCluster  # noqa: PLC0415 - only for this test

    topic, container, notes = f"t-{uuid.uuid4().hex[:8]}", f"c{uuid.uuid4().hex[:8]}", tmp_path / "notes"
    kafka.create_topic(topic, 4)
    produce(kafka.bootstrap, topic, [(b"k%d" % n, b"%d" % n) for n in range(RECORDS)])
    azurite.create_container(container)
    notes.mkdir()
    # The machines have the secrets. What is none, and is read where the app's module is imported, goes along.
    secrets = {"CLUSTER_STORAGE": azurite.connection_string()}
    settings = {"EHKAFKA_BOOTSTRAP": kafka.bootstrap, "CLUSTER_TOPIC": topic, "CLUSTER_NOTES": str(notes)}
    here = Path(__file__).parent
    with SparkCluster(2, python=bare_python, environment=secrets) as cluster:
        shown = cluster.submit(
            here / "cluster_program.py",
            [container, str(tmp_path / "checkpoints")],
            py_files=[shipped, here / "cluster_app.py"],
            configuration={f"spark.executorEnv.{name}": value for name, value in settings.items()},
            environment=secrets | settings,
            timeout_s=SUBMIT_S,
        )
    assert f"handled {RECORDS}" in shown
    handled = [json.loads(line) for path in notes.iterdir() for line in path.read_text().splitlines()]
    assert sorted(row["value"] for row in handled) == list(range(RECORDS))
    assert all("ehkafka.zip/ehkafka/" in row["code"] for row in handled)
    assert len({row["executor"] for row in handled}) == 2
    assert sum(committed(kafka.bootstrap, "cluster", topic).values()) == RECORDS
    with azurite.service_client() as service:
        client = service.get_container_client(container)
        blobs = [name for name in client.list_blob_names() if name.endswith(".jsonl")]
        lines = [line for name in blobs for line in client.download_blob(name).readall().splitlines()]
    assert sorted(int(json.loads(line)["value"]) for line in lines) == list(range(RECORDS))
