#!/usr/bin/env python3
"""Home security, all of it, by one command; it needs `pip install 'ehkafka[spark,web]'` and ends by Ctrl-C.

    python examples/home_security/run.py                     Spark counts
    python examples/home_security/run.py --engine local      an ehkafka app counts; a second process joins it

A broker, Azurite (the first run fetches it by npm), a simulator of 100 000 homes, the engine and the page are
started here, all on 127.0.0.1; nothing goes to another machine. A new kind of sensor is sold after a minute.
At the end the numbers on the page are compared with the simulator's ledger.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError
from home_pipeline import check, ledger
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.stage import Stage
from home_pipeline.sweep import sweep

from ehkafka.errors import EhkafkaError
from ehkafka.testing import EmbeddedBroker
from ehkafka.testing.azurite import Azurite
from ehkafka.testing.ports import free_ports

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

PARTITIONS = 16
SWEEP_EVERY_S = 60.0
DRAIN_S = 120.0


def main() -> int:
    """Run until Ctrl-C, then check."""
    options = arguments().parse_args()
    missing = [name for name in needed(options.engine) if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{', '.join(missing)} is missing: pip install 'ehkafka[spark,web]'", file=sys.stderr)
        return 2
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with ExitStack() as undo:
            return show(options, stop, undo)
    except EhkafkaError as error:
        print(error, file=sys.stderr)
        return 3


def show(options: argparse.Namespace, stop: threading.Event, undo: ExitStack) -> int:
    """Start the parts, wait, end them, compare; return the exit code."""
    folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="home-security-")))
    broker = undo.enter_context(EmbeddedBroker({"readings": PARTITIONS}))
    print("starting Azurite …", flush=True)
    azurite = undo.enter_context(Azurite())
    os.environ[STORAGE] = azurite.connection_string()
    os.environ[CONTAINER] = f"home-security-{secrets.token_hex(4)}"
    container = undo.enter_context(open_container())
    create_container(container)
    stage = Stage(folder, environment(options, broker.bootstrap, folder))
    undo.callback(stage.stop_all)
    port = options.port or free_ports(1)[0]
    address = f"127.0.0.1:{port}"
    begin(stage, options, broker.bootstrap, folder / "ledger.json", port)
    print(f"\n  all homes   http://{address}/\n  one home    http://{address}/home/home-000042\n", flush=True)
    keeper = Keeper(stage, options)
    while not stop.wait(0.5) and keeper.is_well():
        if time.monotonic() > keeper.next_sweep_s:
            keeper.swept(container)
        if options.seconds and time.monotonic() > keeper.began_s + options.seconds:
            stop.set()
    if not stop.is_set():
        return 1
    return verdict(stage, folder / "ledger.json", address)


class Keeper:
    """What is done while the parts run: a second member joins, old blobs go, dead parts are noticed."""

    def __init__(self, stage: Stage, options: argparse.Namespace) -> None:
        self._stage = stage
        self._options = options
        self.began_s = time.monotonic()
        self.next_sweep_s = self.began_s + SWEEP_EVERY_S

    def is_well(self) -> bool:
        """Start the second member when it is time; tell whether all parts run."""
        late = self._options.engine == "local" and "engine-2" not in self._stage.parts
        if late and time.monotonic() > self.began_s + self._options.second_after:
            print("a second process joins the group", flush=True)
            self._stage.start("engine-2", "local_engine")
        for words in self._stage.failed():
            print(words, file=sys.stderr)
            return False
        return True

    def swept(self, container: ContainerClient) -> None:
        """Delete blobs that the page no longer shows."""
        self.next_sweep_s = time.monotonic() + SWEEP_EVERY_S
        try:
            sweep(container, timedelta(seconds=self._options.keep_s + 2 * SWEEP_EVERY_S))
        except AzureError as error:
            print(
                f"old blobs could not be deleted ({type(error).__name__}); next try in a minute",
                file=sys.stderr,
            )


def begin(stage: Stage, options: argparse.Namespace, bootstrap: str, ledger_file: Path, port: int) -> None:
    """Start the page, the engine and, when the engine's first blob may come, the simulator."""
    stage.start("page", "page.server", "--port", str(port), "--keep-s", str(options.keep_s))
    if options.engine == "spark":
        stage.start("engine", "spark_engine", "--window-s", str(options.window_s))
    else:
        stage.start("engine", "local_engine")
    town = ["--homes", str(options.homes), "--rate", str(options.rate)]
    new = ["--new-sensor-after-s", str(options.new_sensor_after), "--keep-s", str(options.keep_s)]
    where = ["--bootstrap", bootstrap, "--ledger", str(ledger_file)]
    stage.start("simulator", "simulate", *where, *town, *new)


def verdict(stage: Stage, ledger_file: Path, address: str) -> int:
    """Stop the simulator, wait until what it sent is on the page, compare; return the exit code."""
    print("stopping the simulator; waiting for the page …", flush=True)
    stage.stop("simulator")
    sent = ledger.read_ledger(ledger_file)
    deadline_s = time.monotonic() + DRAIN_S
    found = ["nothing was compared"]
    while found and time.monotonic() < deadline_s and not [*stage.failed()]:
        time.sleep(1.0)
        found = [*check.differences(sent, address)]
    for words in found or ["the page's numbers equal the ledger's"]:
        print(f"{'✗' if found else '✓'} {words}")
    print(f"  {sent.sent:,} readings sent, {sum(sent.left_out.values()):,} of them spoilt and left out")
    return 1 if found else 0


def environment(options: argparse.Namespace, bootstrap: str, folder: Path) -> dict[str, str]:
    """Return what the parts get to know; secrets by variables of their own."""
    java = {}
    if options.engine == "spark":
        from ehkafka.spark.java_home import find_java_home  # noqa: PLC0415 - needs Spark's extra

        java = {"JAVA_HOME": str(find_java_home()), "SPARK_LOCAL_DIRS": str(folder)}
    return {
        **os.environ,
        **java,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HOME_SECURITY_BOOTSTRAP": bootstrap,
        "HOME_SECURITY_QUICK": "1",
        "HOME_SECURITY_WINDOW_S": str(options.window_s),
        "HOME_SECURITY_CHECKPOINT": str(folder / "checkpoint"),
    }


def needed(engine: str) -> tuple[str, ...]:
    """Return the packages that an engine and the page need beside ehkafka itself."""
    page = ("starlette", "uvicorn")
    return (*page, "pyspark", "pyarrow", "pandas") if engine == "spark" else page


def arguments() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    parser.add_argument("--homes", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=2_000, help="readings a second")
    parser.add_argument("--port", type=int, default=8350, help="of the page; 0 takes a free one")
    parser.add_argument("--window-s", type=int, default=10, help="how finely time is cut")
    parser.add_argument("--keep-s", type=int, default=1_200, help="how much of the past is kept and shown")
    parser.add_argument("--new-sensor-after", type=float, default=60.0, metavar="S")
    parser.add_argument("--second-after", type=float, default=20.0, metavar="S", help="only --engine local")
    parser.add_argument("--seconds", type=float, default=0.0, help="end by itself, then check")
    return parser


if __name__ == "__main__":
    sys.exit(main())
