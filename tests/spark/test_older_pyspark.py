"""The source on PySpark 4.0 and 4.1, each in an environment of its own: a longer mode.

`EHKAFKA_OLDER_PYSPARK=4.0,4.1` names the releases; each is installed by pip, which takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ehkafka.testing import EmbeddedBroker

CHECKOUT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("older_program.py")
RELEASES = [one for one in os.environ.get("EHKAFKA_OLDER_PYSPARK", "").split(",") if one]
INSTALL_S, RUN_S = 900.0, 180.0


@pytest.fixture(scope="module", params=RELEASES or [None], ids=str)
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with that PySpark and this checkout."""
    if request.param is None:
        pytest.skip("a longer mode: EHKAFKA_OLDER_PYSPARK=4.0,4.1")
    folder = tmp_path_factory.mktemp("older")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    wanted = [f"pyspark=={request.param}.*", "pyarrow>=15", "pandas>=2.2,<3", str(CHECKOUT)]
    subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True, timeout=INSTALL_S)
    return python


@pytest.mark.timeout(INSTALL_S + RUN_S)
def test_an_older_pyspark_reads_by_a_limit_of_our_own(
    python: Path, spark_environment: dict[str, str], tmp_path: Path
) -> None:
    """Self-registration, batches of the limit, a restart that goes on, and `spark.read`."""
    with EmbeddedBroker({"readings": 2}) as broker:
        for partition in range(2):
            broker.produce("readings", [(b"k", b"v")] * 25, partition=partition)
        environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
        done = subprocess.run(
            [python, PROGRAM, broker.bootstrap, str(tmp_path / "checkpoint")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    first, second = found["runs"]
    assert [len(batch) for batch in first if batch] == [20, 20, 10]
    expected = [(number, offset) for number in range(2) for offset in range(25)]
    assert sorted(tuple(row) for batch in first for row in batch) == expected
    assert [row for batch in second for row in batch] == [[0, offset] for offset in range(25, 32)]
    assert found["batch"] == 57
