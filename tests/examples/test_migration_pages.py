"""Each guide for users of another library: its program before and after print the same for the same records.

Each program runs in a process of its own, with one Apache Kafka broker. The library before runs as it is,
except that Celery has its transport in memory, and those of AMQP a stand-in (`tests.kit.amqp_stand_in`).
"""

from __future__ import annotations

import importlib
import json
import re
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.topics import committed, produce
from tests.kit.brokers import skip_or_fail
from tests.kit.page_programs import SHOWN_BOOTSTRAP, PageProgram, by_key, save
from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

START = ROOT / "docs" / "start"
STRING = "Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=azE="
SECRETS = {"EVENT_HUB": STRING, "STORAGE": STRING, "EVENT_HUB_KEY": "azE=", "STORAGE_KEY": "azE="}
CUSTOMERS = ("c-1", "c-2", "c-1", "c-3", "c-2", "c-1")
# The page shows the line that is changed, and no file.
DROP_IN = "drop_in.py"

pytestmark = pytest.mark.broker


def calls(turn: int = 0) -> list[tuple[str, str]]:
    """Return a customer and an item for each order of a turn."""
    return [(customer, f"item-{turn}-{number}") for number, customer in enumerate(CUSTOMERS)]


def expected(turn: int = 0) -> dict[str, list[str]]:
    """Return what each page prints for a turn's orders."""
    return by_key("\n".join(f"{customer} {item}" for customer, item in calls(turn)))


@dataclass
class Guide:
    """A page whose programs run with a broker, and with a topic and a group that no other test has."""

    broker: KafkaBroker
    folder: Path
    page: Path
    programs: list[PageProgram] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its topic and its group."""
        return f"{self.page.stem}-{self.folder.name}"

    def saved(self) -> Path:
        """Return a new folder with the files of the page, which name the broker, the topic and the group."""
        folder = self.folder / str(len(self.programs))
        folder.mkdir()
        names = {'"orders"': f'"{self.name}"', '"billing"': f'"{self.name}"'}
        save(self.page, folder, {SHOWN_BOOTSTRAP: self.broker.bootstrap, **names})
        return folder

    def produce(self, turn: int = 0) -> None:
        """Put a turn's orders into the topic."""
        records = [(one, json.dumps({"customer": one, "item": item})) for one, item in calls(turn)]
        produce(self.broker.bootstrap, self.name, records)

    def shown_by(self, folder: Path, command: list[str], by: signal.Signals = signal.SIGTERM) -> str:
        """Run a program until it has printed a turn's lines, stop it by a signal, and return the lines."""
        self.programs.append(PageProgram(folder, command, EHKAFKA_BOOTSTRAP=self.broker.bootstrap, **SECRETS))
        self.programs[-1].wait_for_lines(len(CUSTOMERS))
        code = self.programs[-1].stop_by(by)
        assert code == 0 or "after" not in command[-1], self.programs[-1].stderr
        return self.programs[-1].stdout

    def shown_by_python(self, name: str, *launcher: str) -> str:
        """Do so with a Python file of the page: an app takes SIGTERM, the programs before it Ctrl-C."""
        by = signal.SIGTERM if name.startswith("after") else signal.SIGINT
        return self.shown_by(self.saved(), [sys.executable, *launcher, name], by)

    def committed(self) -> dict[int, int | None]:
        """Return the group's commits."""
        return committed(self.broker.bootstrap, self.name, self.name)

    def all_is_committed(self, turns: int) -> bool:
        """Tell whether the group's commits are behind the orders of all turns."""
        return sum(filter(None, self.committed().values())) == turns * len(CUSTOMERS)


@pytest.fixture
def guide(kafka: KafkaBroker, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Guide]:
    """Return the guide that the test is about, with an empty topic."""
    one = Guide(kafka, tmp_path, START / request.param)
    kafka.create_topic(one.name, 2)
    yield one
    for program in one.programs:
        program.close()


# The files of a page in its order: the client of Kafka, then what takes its place in its group.
CLIENTS = [
    ("from-aiokafka.md", ("before.py", "after.py")),
    ("from-confluent-kafka.md", ("before.py", DROP_IN, "threads.py", "after.py")),
    ("from-faststream.md", ("before.py", "after.py")),
]


@pytest.mark.parametrize(("guide", "files"), CLIENTS, indirect=["guide"])
def test_an_app_takes_the_place_of_a_client_of_kafka(guide: Guide, files: tuple[str, ...]) -> None:
    """Each program prints the orders that the one before it left, in the order of each customer."""
    for turn, name in enumerate(files):
        guide.produce(turn)
        if name == DROP_IN:
            folder = guide.saved()
            change_the_import(guide.page, folder)
            shown = guide.shown_by(folder, [sys.executable, name], signal.SIGINT)
        else:
            shown = guide.shown_by_python(name)
        assert by_key(shown) == expected(turn), name
    assert guide.all_is_committed(len(files))


def change_the_import(page: Path, folder: Path) -> None:
    """Save the program before, with the line of the page's first step in place of its import."""
    (line,) = re.findall(r"^(from .+?)  # was: (.+)$", page.read_text(), re.MULTILINE)
    before = (folder / "before.py").read_text()
    assert f"{line[1]}\n" in before
    (folder / DROP_IN).write_text(before.replace(line[1], line[0]))


SDKS = [
    ("from-azure-eventhub.md", ("before.py", "after.py")),
    ("from-azure-eventhub.md", ("before_aio.py", "after_aio.py")),
    ("from-event-processor-host.md", ("before.py", "after.py")),
]


@pytest.mark.parametrize(("guide", "files"), SDKS, indirect=["guide"])
def test_an_app_takes_the_place_of_a_client_of_amqp(guide: Guide, files: tuple[str, ...]) -> None:
    """Both print the same; the app's commits are behind the events of the last checkpoints."""
    guide.produce()
    stand_in = ("-m", "tests.kit.amqp_stand_in", guide.broker.bootstrap, guide.name)
    shown = by_key(guide.shown_by_python(files[0], *stand_in))
    closed = sorted(shown.pop("closed", []))
    checkpoints = re.findall(r"^checkpoint (\d+) (\d+)$", guide.programs[-1].stderr, re.MULTILINE)
    after = by_key(guide.shown_by_python(files[1]))
    assert sorted(after.pop("closed", [])) == closed
    assert shown == after == expected()
    last = {int(partition): int(number) for partition, number in checkpoints}
    assert {one: offset - 1 for one, offset in guide.committed().items() if offset} == last


@pytest.mark.timeout(300)  # it downloads JARs the first time
@pytest.mark.parametrize("guide", ["from-parallel-consumer.md"], indirect=True)
def test_an_app_takes_the_place_of_parallel_consumer(guide: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM's library, from the pinned JARs of `scripts/peers`; the app continues at its commit."""
    guide.produce(0)
    folder = guide.saved()
    command = java_command(folder / "Before.java", monkeypatch)
    assert by_key(guide.shown_by(folder, command)) == expected(0)
    guide.produce(1)
    assert by_key(guide.shown_by_python("after.py")) == expected(1)
    assert guide.all_is_committed(2)


def java_command(source: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compile a Java file of a page; return what runs it. Without a JDK the test is skipped."""
    java, environments = peers("java", monkeypatch), peers("environments", monkeypatch)
    sides = peers("catalogue", monkeypatch).all_sides()
    (side,) = (one for one in sides if one.name == "parallel_consumer")
    settings = {**side.settings, "main_class": source.stem}
    try:
        command: list[str] = java.command(settings, source, environments.CACHE)
    except environments.EnvironmentFailedError as error:
        skip_or_fail(error, "JDK with parallel-consumer")
    return command


CELERY = ("celery==5.7.0",)
# Runs a worker in the process that calls the tasks: the transport in memory knows no other process.
WORKER = """
import threading
from celery.contrib.testing.worker import start_worker
from tasks import bill, celery

with start_worker(celery, perform_ping_check=False, loglevel="ERROR"):
    for call in {calls}:
        bill.delay(*call)
    threading.Event().wait()
"""
CALLER = "import calls\nfor call in {calls}:\n    calls.bill_later(*call)\ncalls.end()\n"


@pytest.mark.timeout(300)  # it makes an environment the first time
@pytest.mark.parametrize("guide", ["from-celery.md"], indirect=True)
def test_an_app_takes_the_place_of_a_celery_worker(guide: Guide, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same calls; Celery is in an environment of its own, since it asks for older packages."""
    environments, catalogue = peers("environments", monkeypatch), peers("catalogue", monkeypatch)
    side = catalogue.Side("celery", "Celery", "5.7.0", "", (), packages=CELERY)
    try:
        python = environments._python_of(side, environments.CACHE)
    except environments.EnvironmentFailedError as error:
        skip_or_fail(error, "Celery")
    folder = guide.saved()
    save(guide.page, folder, {"amqp://localhost": "memory://"})
    (folder / "worker.py").write_text(WORKER.format(calls=calls()))
    shown = guide.shown_by(folder, [str(python), "worker.py"], signal.SIGINT)
    assert by_key(shown) == expected()
    guide.broker.create_topic("orders.dead", 1)
    folder = guide.saved()
    (folder / "caller.py").write_text(CALLER.format(calls=calls()))
    caller = PageProgram(folder, [sys.executable, "caller.py"])
    guide.programs.append(caller)
    assert caller.end() == 0, caller.stderr
    assert by_key(guide.shown_by(folder, [sys.executable, "after.py"])) == expected()


def peers(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of `scripts/peers`, which makes environments for other libraries."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module(f"peers.{name}")
