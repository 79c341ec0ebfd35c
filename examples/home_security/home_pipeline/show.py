"""The whole pipeline on this machine: its parts started, watched, ended in order, its numbers compared.

Called by `run.py` on the main thread. What can be known to fail is found before anything is started; each
failure is one message with the next step.
"""

from __future__ import annotations

import contextlib
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
from home_pipeline.alerts import ALERTS
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.keeper import SIMULATOR, Keeper, say
from home_pipeline.news import News
from home_pipeline.readings import PARTITIONS, TOPIC, Town
from home_pipeline.stage import TOKEN, Stage
from home_pipeline.sweep import sweep
from home_pipeline.table import SILENT_S_MIN, SILENT_TURNS
from tests.kit.azurite import Azurite
from tests.kit.azurite_install import find_node

if TYPE_CHECKING:
    import argparse

    from azure.storage.blob import ContainerClient

HOST = "127.0.0.1"
ALERT_PARTITIONS = 4
LEDGER = "ledger.json"
SWEEP_EVERY_S = 60.0
PATIENCE_S = 300.0
"""How long the page may show nothing new, when nothing more is sent, before its numbers count as final."""
FIRST_PATIENCE_S = 600.0
"""The same of a page that has shown nothing yet: Spark may still be starting."""
SHOWN_MAX = 5
DETAILED_S = 1_200
"""How far back the ledger has single readings: with more of them it would not fit into memory."""


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
    broker = undo.enter_context(EmbeddedBroker({TOPIC: PARTITIONS, ALERTS: ALERT_PARTITIONS}))
    say("Azurite starts; the first time npm fetches it, 190 MB")
    azurite = undo.enter_context(Azurite(keeps=True))
    os.environ[STORAGE] = azurite.connection_string()
    os.environ[CONTAINER] = f"home-security-{secrets.token_hex(4)}"
    container = undo.enter_context(open_container())
    create_container(container)
    token = secrets.token_urlsafe(24)
    stage = Stage(path, environment(options, broker.bootstrap, path) | java | {TOKEN: token})
    undo.callback(stage.stop_all)
    address = f"{HOST}:{port}"
    begin(stage, options, broker.bootstrap, path, port)
    stop.parts_run()
    print(f"\n  all homes   http://{address}/#token={token}")
    print(f"  one home    http://{address}/home/home-000033#token={token}\n", flush=True)
    say("Spark starts" if options.engine == "spark" else "the app starts")
    keeper = Keeper(stage, path, options.engine, (azurite, container))
    if not watch(keeper, options, container, News(address), stop):
        return 1
    return compare(stage, keeper, path / LEDGER, address, broker.bootstrap)


def begin(stage: Stage, options: argparse.Namespace, bootstrap: str, folder: Path, port: int) -> None:
    """Start the page, the engine and the simulator."""
    silent_s = max(SILENT_S_MIN, SILENT_TURNS * Town(options.homes, options.rate, 0).interval_s)
    kept = ["--keep-s", str(options.keep_s), "--silent-s", str(silent_s), "--folder", str(folder)]
    stage.start("page", "page.server", "--port", str(port), *kept)
    stage.start("engine", f"{options.engine}_engine")
    if options.engine == "local":
        stage.start("alerts", "alerts")
    town = ["--homes", str(options.homes), "--rate", str(options.rate)]
    new = ["--new-sensor-after-s", str(options.new_sensor_after)]
    where = ["--bootstrap", bootstrap, "--ledger", str(folder / LEDGER)]
    kept = ["--keep-s", str(min(options.keep_s, DETAILED_S))]
    stage.start(SIMULATOR, "simulate", *where, *town, *new, *kept)


def watch(
    keeper: Keeper, options: argparse.Namespace, container: ContainerClient, news: News, stop: Stop
) -> bool:
    """Do what is due until the end is asked for; tell whether there is something to compare with."""
    began_s = time.monotonic()
    next_sweep_s = began_s + SWEEP_EVERY_S
    while not stop.wait(0.5):
        now_s = time.monotonic()
        if not keeper.check():
            return False
        if options.second_after and options.engine == "local" and now_s > began_s + options.second_after:
            keeper.start_second()
        if now_s > next_sweep_s:
            next_sweep_s = now_s + SWEEP_EVERY_S
            sweep_old(container, options.keep_s)
        news.check()
        if options.seconds and now_s > began_s + options.seconds:
            stop.ask()
    return True


def sweep_old(container: ContainerClient, keep_s: int) -> None:
    """Delete blobs that the page no longer shows."""
    try:
        sweep(container, timedelta(seconds=keep_s + 2 * SWEEP_EVERY_S))
    except AzureError as error:
        say(f"old blobs could not be deleted ({type(error).__name__}); next try in a minute")


def compare(stage: Stage, keeper: Keeper, ledger_file: Path, address: str, bootstrap: str) -> int:
    """Stop the simulator, wait until what it sent has arrived, compare; return the exit code."""
    say("the simulator stops; when the last windows are on the page, its numbers are compared")
    print("          (Ctrl-C leaves without that)", flush=True)
    code = stage.stop(SIMULATOR)
    if code or not ledger_file.exists():
        print(f"the simulator ended with code {code}; without its whole ledger there is no comparison")
        return 1
    sent = ledger.read_ledger(ledger_file)
    compared = final(keeper, sent, address)
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
        print(f"  alarms and spoilt readings, and {compared.sensors} sensors of 20 homes one by one")
    if not wrong:
        print(f"✓ each of {alerts:,} alarms has its alert in the topic, each home's in order")
    print(f"  {sent.sent:,} were sent: {sum(sent.left_out.values()):,} were spoilt, one only closed windows")
    return 1 if differences else 0


def final(keeper: Keeper, sent: ledger.Ledger, address: str) -> check.Compared:
    """Compare until all is equal or the page stands still; what dies meanwhile is started again."""
    deadline_s, before = time.monotonic() + FIRST_PATIENCE_S, 0
    compared, readings = check.Compared(0, 0, ["the page did not answer"]), 0
    while compared.differences and time.monotonic() < deadline_s:
        time.sleep(1.0)
        keeper.check()
        with contextlib.suppress(OSError):  # the page has died, too, or is being started again
            compared, readings = check.compare(sent, address), check.ask(address, "/api/overview")["readings"]
        if readings != before:
            deadline_s, before = time.monotonic() + PATIENCE_S, readings
    late = sent.sent - sum(sent.left_out.values()) - readings
    if compared.differences and late > 0:
        words = f"{late:,} readings are not on the page, which has not changed for {PATIENCE_S:.0f} s"
        compared.differences.insert(0, f"{words}: the engine has stopped, or is too slow on this machine")
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
