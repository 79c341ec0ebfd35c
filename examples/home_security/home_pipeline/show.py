"""The whole pipeline on this machine: its parts started, watched, ended in order, its numbers compared.

Called by `run.py` on the main thread. What can be known to fail is found before anything is started; each
failure is one message with the next step.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

from ehkafka.errors import EhkafkaError, EndpointError, MissingExtraError
from ehkafka.testing import EmbeddedBroker
from ehkafka.testing.ports import free_ports
from home_pipeline import check, ledger
from home_pipeline.alert_check import compare_alerts
from home_pipeline.alerts import ALERTS, READINGS
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.news import News, say
from home_pipeline.stage import Stage
from home_pipeline.sweep import sweep
from tests.kit.azurite import Azurite
from tests.kit.azurite_install import find_node

if TYPE_CHECKING:
    import argparse

    from azure.storage.blob import ContainerClient

HOST = "127.0.0.1"
PARTITIONS = 16
ALERT_PARTITIONS = 4
SWEEP_EVERY_S = 60.0
PATIENCE_S = 120.0
"""How long the page may show nothing new, when nothing more is sent, before its numbers count as final."""
FIRST_PATIENCE_S = 600.0
"""The same of a page that has shown nothing yet: Spark may still be starting."""
SHOWN_MAX = 5


def show(options: argparse.Namespace) -> int:
    """Run everything until Ctrl-C or `options.seconds` are over; return the exit code.

    Raises `KeyboardInterrupt`, with all ended, when that was before the comparison.
    """
    stop = Stop()
    try:
        port = page_port(options.port)
        java = runtimes(options.engine)
        with ExitStack() as undo:
            try:
                return _run(options, port, java, stop, undo)
            finally:
                stop.be_deaf()
    except EhkafkaError as error:
        print(error, file=sys.stderr)
        return error.exit_code


class Stop:
    """Ctrl-C, and SIGTERM: the first ends the run and has the numbers compared, one more ends that, too.

    While the parts are being started the first one ends all. Lives on the main thread.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._runs = False
        self._handle(self._on_signal)

    def parts_run(self) -> None:
        """Begin to take the first signal for a wish."""
        self._runs = True

    def be_deaf(self) -> None:
        """Let nothing interrupt the end."""
        self._handle(signal.SIG_IGN)

    def ask(self) -> None:
        """Do as the first signal does."""
        self._asked.set()

    def wait(self, timeout_s: float) -> bool:
        """Tell whether the end was asked for, after so long at most."""
        return self._asked.wait(timeout_s)

    def _on_signal(self, *_: object) -> None:
        if self._asked.is_set() or not self._runs:
            raise KeyboardInterrupt
        self._asked.set()

    def _handle(self, handler: Any) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler)


def page_port(wanted: int) -> int:
    """Return the page's port. Raises `EndpointError` when another program has it."""
    if wanted == 0:
        return free_ports(1, HOST)[0]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the page's server does
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            raise EndpointError(
                f"The page cannot have {HOST}:{wanted} ({error.strerror}): name another port with --port, "
                "or let --port 0 choose a free one"
            ) from None
    return wanted


def runtimes(engine: str) -> dict[str, str]:
    """Return what Spark's processes need to know of Java.

    Raises `MissingExtraError` that names all that is missing: a Node for Azurite, for Spark a Java.
    """
    variables, missing = {}, []
    try:
        find_node()
    except MissingExtraError as error:
        missing.append(str(error))
    if engine == "spark":
        from ehkafka.spark.java_home import find_java_home  # noqa: PLC0415 - one engine only
        from ehkafka.spark.versions import check_pyspark  # noqa: PLC0415 - see above

        check_pyspark()
        try:
            variables["JAVA_HOME"] = str(find_java_home())
        except MissingExtraError as error:
            missing.append(str(error))
    if missing:
        raise MissingExtraError("\n".join(missing))
    return variables


def _run(options: argparse.Namespace, port: int, java: dict[str, str], stop: Stop, undo: ExitStack) -> int:
    """Start the parts, wait, end them, compare; return the exit code."""
    # A process that is just ending may still write there.
    folder = tempfile.TemporaryDirectory(prefix="home-security-", ignore_cleanup_errors=True)
    path = Path(undo.enter_context(folder))
    broker = undo.enter_context(EmbeddedBroker({READINGS: PARTITIONS, ALERTS: ALERT_PARTITIONS}))
    say("Azurite starts; the first time npm fetches it, 190 MB")
    azurite = undo.enter_context(Azurite())
    os.environ[STORAGE] = azurite.connection_string()
    os.environ[CONTAINER] = f"home-security-{secrets.token_hex(4)}"
    container = undo.enter_context(open_container())
    create_container(container)
    stage = Stage(path, environment(options, broker.bootstrap, path) | java)
    undo.callback(stage.stop_all)
    address = f"{HOST}:{port}"
    begin(stage, options, broker.bootstrap, path / "ledger.json", port)
    stop.parts_run()
    print(f"\n  all homes   http://{address}/\n  one home    http://{address}/home/home-000033\n", flush=True)
    say("Spark starts" if options.engine == "spark" else "the app starts")
    if not watch(stage, options, container, News(address, path), stop):
        return 1
    return compare(stage, path / "ledger.json", address, broker.bootstrap)


def begin(stage: Stage, options: argparse.Namespace, bootstrap: str, ledger_file: Path, port: int) -> None:
    """Start the page, the engine and the simulator."""
    keep = ["--keep-s", str(options.keep_s)]
    stage.start("page", "page.server", "--port", str(port), *keep)
    if options.engine == "spark":
        stage.start("engine", "spark_engine", "--window-s", str(options.window_s))
    else:
        stage.start("engine", "local_engine")
        stage.start("alerts", "alerts")
    town = ["--homes", str(options.homes), "--rate", str(options.rate), *keep]
    new = ["--new-sensor-after-s", str(options.new_sensor_after)]
    where = ["--bootstrap", bootstrap, "--ledger", str(ledger_file)]
    stage.start("simulator", "simulate", *where, *town, *new)


def watch(
    stage: Stage, options: argparse.Namespace, container: ContainerClient, news: News, stop: Stop
) -> bool:
    """Do what is due until the end is asked for; tell whether all parts still run."""
    began_s = time.monotonic()
    next_sweep_s = began_s + SWEEP_EVERY_S
    while not stop.wait(0.5):
        now_s = time.monotonic()
        if has_failed(stage):
            return False
        alone = options.engine == "local" and "engine-2" not in stage.parts
        if alone and now_s > began_s + options.second_after:
            stage.start("engine-2", "local_engine")
            members = ", ".join(f"{stage.parts[name].pid}" for name in engines(stage))
            say(f"a second process joins the group; the members' process ids: {members}")
        if now_s > next_sweep_s:
            next_sweep_s = now_s + SWEEP_EVERY_S
            sweep_old(container, options.keep_s)
        news.check()
        if options.seconds and now_s > began_s + options.seconds:
            stop.ask()
    return True


def has_failed(stage: Stage) -> bool:
    """Tell, and say why, whether a part has ended that should run; of a group's members one is enough."""
    ended = [name for name in engines(stage) if stage.parts[name].poll() is not None]
    if len(ended) < len(engines(stage)):
        for name in ended:
            say(f"{name} has ended with code {stage.stop(name)}; the other takes its partitions over")
    for words in stage.failed():
        print(words, file=sys.stderr)
        return True
    return False


def engines(stage: Stage) -> list[str]:
    """Return the names of the engine's processes."""
    return [name for name in stage.parts if name.startswith("engine")]


def sweep_old(container: ContainerClient, keep_s: int) -> None:
    """Delete blobs that the page no longer shows."""
    try:
        sweep(container, timedelta(seconds=keep_s + 2 * SWEEP_EVERY_S))
    except AzureError as error:
        say(f"old blobs could not be deleted ({type(error).__name__}); next try in a minute")


def compare(stage: Stage, ledger_file: Path, address: str, bootstrap: str) -> int:
    """Stop the simulator, wait until what it sent has arrived, compare; return the exit code."""
    say("the simulator stops; when the last windows are on the page, its numbers are compared")
    print("          (Ctrl-C leaves without that)", flush=True)
    code = stage.stop("simulator")
    if code or not ledger_file.exists():
        print(f"the simulator ended with code {code}; without its whole ledger there is no comparison")
        return 1
    sent = ledger.read_ledger(ledger_file)
    compared = final(stage, sent, address)
    if compared is None:
        return 1
    alerts, wrong = compare_alerts(sent, bootstrap, PATIENCE_S)
    differences = [*compared.differences, *wrong]
    for words in differences[:SHOWN_MAX]:
        print(f"✗ {words}")
    if differences[SHOWN_MAX:]:
        print(f"✗ and {len(differences) - SHOWN_MAX} more")
    if not compared.differences:
        print(
            f"✓ the page's numbers equal the ledger's: {compared.readings:,} readings of all homes by kind, "
        )
        print(f"  their alarms, and {compared.sensors} sensors of 20 homes one by one")
    if not wrong:
        print(f"✓ each of {alerts:,} alarms has its alert in the topic, each home's in order")
    print(f"  {sent.sent:,} readings were sent, {sum(sent.left_out.values()):,} of them spoilt and left out")
    return 1 if differences else 0


def final(stage: Stage, sent: ledger.Ledger, address: str) -> check.Compared | None:
    """Compare until all is equal or the page stands still; None, and words, when a part ends meanwhile."""
    deadline_s, before = time.monotonic() + FIRST_PATIENCE_S, 0
    while True:
        time.sleep(1.0)
        compared, readings = check.compare(sent, address), check.ask(address, "/api/overview")["readings"]
        if has_failed(stage):
            return None
        if readings != before:
            deadline_s, before = time.monotonic() + PATIENCE_S, readings
        if not compared.differences or time.monotonic() > deadline_s:
            return compared


def environment(options: argparse.Namespace, bootstrap: str, folder: Path) -> dict[str, str]:
    """Return what the parts get to know; secrets by variables of their own."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder),
        "TMPDIR": str(folder),  # so that nothing is left of a part that had to be killed
        "HOME_SECURITY_BOOTSTRAP": bootstrap,
        "HOME_SECURITY_QUICK": "1",
        "HOME_SECURITY_WINDOW_S": str(options.window_s),
        "HOME_SECURITY_CHECKPOINT": str(folder / "checkpoint"),
    }
